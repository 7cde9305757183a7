// The server's own version, as metadata and --version tell it.
#pragma once

namespace fovea {

inline constexpr char kVersion[] = FOVEA_VERSION;  // the project's, from CMakeLists.txt

}  // namespace fovea
