#include "server/imaging/codec_status.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <new>
#include <opencv2/core.hpp>

#include "absl/strings/escaping.h"
#include "server/core/status.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

// libjpeg's message for a failed allocation; TurboJPEG hands on nothing else to tell it by.
constexpr char kJpegOutOfMemory[] = "Insufficient memory";

// Damaged images are a caller's everyday mistake: they must not fill the log at its usual level.
void LogDamage(absl::string_view words) { spdlog::debug("image codec: {}", absl::CEscape(words)); }

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
    spdlog::error("image codec: {}", absl::CEscape(error.what()));
    return Internal("image.codec_failed", "the image could not be decoded");
  }
}

}  // namespace fovea
