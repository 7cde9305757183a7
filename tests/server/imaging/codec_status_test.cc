#include "server/imaging/codec_status.h"

#include <gtest/gtest.h>

#include <new>
#include <opencv2/core.hpp>
#include <stdexcept>
#include <string>

#include "server/core/status.h"

namespace fovea {
namespace {

constexpr char kLibrarysWords[] = "libsecret: /etc/passwd:12";

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& reason) {
  EXPECT_EQ(status.code(), code);
  EXPECT_EQ(ReasonOf(status), reason);
  EXPECT_EQ(status.ToString().find("secret"), std::string::npos) << status;
}

TEST(CodecStatus, NothingToSayIsSuccess) {
  EXPECT_TRUE(RunCodec([] { return std::string(); }).ok());
}

TEST(CodecStatus, ALibrarysComplaintIsTheCallersMistakeInOurWords) {
  ExpectError(RunCodec([] { return std::string(kLibrarysWords); }),
              absl::StatusCode::kInvalidArgument, "image.corrupt");
  ExpectError(RunCodec([]() -> std::string {
                throw cv::Exception(cv::Error::StsError, kLibrarysWords, "f", "secret.cpp", 1);
              }),
              absl::StatusCode::kInvalidArgument, "image.corrupt");
}

TEST(CodecStatus, Row39MissingMemoryIsARetryableError) {
  ExpectError(RunCodec([]() -> std::string { throw std::bad_alloc(); }),
              absl::StatusCode::kUnavailable, "image.memory");
  ExpectError(RunCodec([]() -> std::string {
                throw cv::Exception(cv::Error::StsNoMem, kLibrarysWords, "f", "secret.cpp", 1);
              }),
              absl::StatusCode::kUnavailable, "image.memory");
  ExpectError(RunCodec([] { return std::string("TurboJPEG: Insufficient memory (case 4)"); }),
              absl::StatusCode::kUnavailable, "image.memory");
}

TEST(CodecStatus, AnythingElseIsOurFault) {
  ExpectError(RunCodec([]() -> std::string { throw std::logic_error(kLibrarysWords); }),
              absl::StatusCode::kInternal, "image.codec_failed");
}

}  // namespace
}  // namespace fovea
