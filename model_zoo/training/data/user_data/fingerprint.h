// Whether data on disk is what it was.
#pragma once

#include <cstdint>

#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

// A hash of the samples' names (with their class, where that is a folder), the files' names and
// sizes in bytes, and the text of those called *.json. A picture or mask that was changed and kept
// its name and size is not noticed. Where the folders lie makes no difference. `source` has an end.
// Throws DataError where a file is not there, or a text cannot be read.
uint64_t FingerprintOf(const SampleSource& source);

}  // namespace fovea::models::training
