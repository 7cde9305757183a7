// A file that comes with a call instead of lying on disk.
#pragma once

#include <string>

namespace fovea {

struct SentFile {
  std::string name;  // in its model's folder: "1/model.safetensors"
  std::string bytes;
};

}  // namespace fovea
