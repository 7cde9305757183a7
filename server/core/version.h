// The server's own name and version, as metadata and --version tell them.
#pragma once

namespace fovea {

inline constexpr char kServerName[] = "fovea";
inline constexpr char kVersion[] = FOVEA_VERSION;  // the project's, from CMakeLists.txt

}  // namespace fovea
