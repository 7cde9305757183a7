// Our levels of log as spdlog's, for the two files that know spdlog.
#pragma once

#include <spdlog/common.h>

#include "server/core/log.h"

namespace fovea {

inline spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace fovea
