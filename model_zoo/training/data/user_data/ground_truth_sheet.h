// What a data set says is true, drawn over its pictures: to see whether a reader understood it.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>

#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

// The samples first, first + 1, ... as far as there are any, one cell of `side` pixels each, and
// below each the same picture under its ground truth: masks and class maps as tints, boxes and
// labels in the class's colour, crowds dashed, ignored pixels grey. uint8 RGB. Throws what
// source.Get does, and std::invalid_argument where there is no cell.
cv::Mat GroundTruthSheet(const SampleSource& source, uint64_t first, int rows, int columns,
                         int side);

}  // namespace fovea::models::training
