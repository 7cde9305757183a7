// The playground's files, as they are compiled into the server: at run time there is no folder, and
// no name leads out of it.
#pragma once

#include <span>
#include <string_view>

namespace fovea {

struct WebFile {
  std::string_view name;  // "app.js"
  std::string_view content_type;
  std::string_view etag;  // of its bytes, weak: it may leave compressed (RFC 9110, section 8.8.3)
  std::string_view bytes;
};

// All of them, for as long as the process lives.
std::span<const WebFile> WebFiles();

}  // namespace fovea
