#include "server/imaging/codec_status.h"

#include <exception>
#include <new>
#include <opencv2/core.hpp>

#include "absl/strings/str_cat.h"
#include "server/core/log.h"
#include "server/core/status.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

// libjpeg's message for a failed allocation; TurboJPEG hands on nothing else to tell it by.
constexpr char kJpegOutOfMemory[] = "Insufficient memory";

// Damaged images are a caller's everyday mistake: they must not fill the log at its usual level.
void LogDamage(const std::string& words) {
  Log(LogLevel::kDebug, absl::StrCat("image codec: ", words));
}

absl::Status OutOfMemory() {
  return Unavailable("image.memory", "there is no memory to decode the image now");
}

}  // namespace

absl::Status RunCodec(absl::FunctionRef<std::string()> decode) {
  try {
    const std::string failure = decode();
    if (failure.empty()) return absl::OkStatus();
    LogDamage(failure);
    if (failure.find(kJpegOutOfMemory) != std::string::npos) return OutOfMemory();
    return Corrupt("its pixels cannot be decoded");
  } catch (const cv::Exception& error) {
    LogDamage(error.what());
    if (error.code == cv::Error::StsNoMem) return OutOfMemory();
    return Corrupt("its pixels cannot be decoded");
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::exception& error) {
    Log(LogLevel::kError, absl::StrCat("image codec: ", error.what()));
    return Internal("image.codec_failed", "the image could not be decoded");
  }
}

}  // namespace fovea
