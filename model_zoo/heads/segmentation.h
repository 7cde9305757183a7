// What every segmenter gives: a logit for each class at every place of its finest map.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_zoo/heads/head.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// The classes of a segmenter there; ADE20K's 150 where the site names no number. Throws
// c10::ValueError in words where a map of logits would be larger than any server holds.
int64_t SegmentationClasses(const HeadSite& site, const std::string& head);

// "logits" FP32 [classes, height, width], of the finest map: how large follows from the input.
std::vector<ModelInfo::Output> SegmentationOutputs(int64_t classes);

}  // namespace fovea::models
