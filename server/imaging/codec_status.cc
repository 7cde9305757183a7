#include "server/imaging/codec_status.h"

#include <cerrno>
#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/log.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

// Damaged images are a caller's everyday mistake: they must not fill the log at its usual level.
void LogDamage(const std::string& words) {
  Log(LogLevel::kDebug, absl::StrCat("image codec: ", words));
}

}  // namespace

absl::Status RunCodec(absl::FunctionRef<std::string()> decode) {
  try {
    // Some libraries report failed allocations as damage.
    errno = 0;
    const std::string failure = decode();
    const bool out_of_memory = errno == ENOMEM;
    if (failure.empty()) return absl::OkStatus();
    if (out_of_memory) return OutOfMemory();
    LogDamage(failure);
    return Corrupt("its pixels cannot be decoded");
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::exception& error) {
    Log(LogLevel::kError, absl::StrCat("image codec: ", error.what()));
    return Internal("image.codec_failed", "the image could not be decoded");
  }
}

}  // namespace fovea
