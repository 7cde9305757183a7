// A data set on disk, as users lay out their own.
#pragma once

#include <cstdint>
#include <filesystem>

#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

// Writes the samples first, first + 1, ... (all that there are, or `count`) into `folder`, which is
// made where it is missing: images/000000.png and so on; where the source has boxes
// annotations.json, COCO's (masks as compressed run lengths); where it has class maps
// masks/000000.png and labels.txt. So one folder of scenes is read by OpenUserData for detection
// and for segmentation. Throws std::runtime_error where a file cannot be written.
void WriteDataSet(const SampleSource& source, uint64_t first, uint64_t count,
                  const std::filesystem::path& folder);

}  // namespace fovea::models::training
