// Where the log goes and in which form. Lines are written through core/log.h.
#pragma once

#include <string_view>

namespace fovea {

// `level`: debug, info, warning, error; `format`: text, or json (one object a line). Writes to
// standard error. To be called once, before other threads are started.
void SetUpLogging(std::string_view level, std::string_view format);

}  // namespace fovea
