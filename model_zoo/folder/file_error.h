// Errors of a model's folder that name the file at fault, and the line where there is one.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace fovea {

// FAILED_PRECONDITION "`file`:`line`: `text`". Lines count from 1; 0: of the whole file, and not
// told. `file` is a path in the model's folder.
absl::Status FileError(std::string_view reason, std::string_view file, int line,
                       std::string_view text);

// What FileError was told; an empty file of any other status.
struct FileLocation {
  std::string file;
  int line = 0;
};
FileLocation LocationOf(const absl::Status& status);

}  // namespace fovea
