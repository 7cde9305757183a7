// TIFF, AVIF and GIF files that ask for more than they hold, each with what becomes of it.
#pragma once

#include <string>
#include <vector>

#include "tests/server/imaging/image_files.h"

namespace fovea::testing {

struct HostileFile {
  std::string name;
  File file;
  std::string reason;       // of probing or decoding it; empty: it is decoded
  int64_t probe_bytes = 0;  // that its probe may hold, besides 2 MiB
};

std::vector<HostileFile> HostileFiles();

}  // namespace fovea::testing
