#include "server/imaging/codec_status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>

#include "base/status.h"

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
}

TEST(CodecStatus, Row39MissingMemoryIsARetryableError) {
  ExpectError(RunCodec([]() -> std::string { throw std::bad_alloc(); }),
              absl::StatusCode::kUnavailable, "server.out_of_memory");
  ExpectError(RunCodec([] {
                errno = ENOMEM;
                return std::string(kLibrarysWords);
              }),
              absl::StatusCode::kUnavailable, "server.out_of_memory");
}

TEST(CodecStatus, MemoryThatWasMissingBeforeOrThatALibraryDidWithoutIsNoError) {
  errno = ENOMEM;
  ExpectError(RunCodec([] { return std::string(kLibrarysWords); }),
              absl::StatusCode::kInvalidArgument, "image.corrupt");
  const absl::Status status = RunCodec([] {
    errno = ENOMEM;
    return std::string();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CodecStatus, AnythingElseIsOurFault) {
  ExpectError(RunCodec([]() -> std::string { throw std::logic_error(kLibrarysWords); }),
              absl::StatusCode::kInternal, "image.codec_failed");
}

}  // namespace
}  // namespace fovea
