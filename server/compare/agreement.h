// What models answer, and what changes in it. Pure.
#pragma once

#include <span>

#include "server/core/comparison.h"
#include "server/core/request.h"

namespace fovea {

// `results` and `baseline`: of the same images, one image each, and of one task; of classifiers
// every class, with its logit; of detectors with masks as run lengths where there are masks; of
// segmenters with run lengths. Classes that only one of the two models has agree with nothing.
Agreement Agree(std::span<const Results> results, std::span<const Results> baseline);

// Of one image.
BriefAnswer Brief(const Results& results);

}  // namespace fovea
