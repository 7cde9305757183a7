// Reads a data set once before training, so that one bad picture does not end it, and data with
// nothing to learn are refused first.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

struct ReadableData {
  std::shared_ptr<const SampleSource> source;  // of the samples that can be read
  std::vector<std::string> left_out;           // why the others cannot, in their order
  int64_t objects = 0, crowds = 0;
  std::set<int64_t> classes;  // of pictures, objects or pixels
  bool ignored_pixels = false;
};

// Gets every sample once, on as many threads as there are processors, at most eight. Throws
// DataError, naming the first ones, where more than half of the samples cannot be read. `progress`
// is told the pictures.
ReadableData ReadAll(const std::shared_ptr<const SampleSource>& source,
                     const ReadProgress& progress = {});

// What people should know of `left_out` of so many samples: how many there are, and why each is.
std::string LeftOutNote(const std::vector<std::string>& left_out, uint64_t all);

// The samples whose masks (MaskCount) CheckMasks allows, and a note of the others where there are
// some. Throws DataError where they are more than half.
std::shared_ptr<const SampleSource> WithoutLargeMasks(
    const std::shared_ptr<const SampleSource>& source, int64_t pixels,
    std::vector<std::string>& notes);

// Throws DataError, in words, where nothing can be learned of it: there is no object, or only one
// class of pictures or pixels.
void CheckLearnable(const ReadableData& data);

}  // namespace fovea::models::training
