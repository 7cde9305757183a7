// What models answer, and what changes in it. Pure.
#pragma once

#include <span>

#include "server/core/comparison.h"
#include "server/core/request.h"

namespace fovea {

// What the confidences of a classifier are: shares of all classes, or each class's own.
enum class ClassConfidence { kSoftmax, kSigmoid };

struct ComparedConfidences {
  ClassConfidence results = ClassConfidence::kSoftmax;
  ClassConfidence baseline = ClassConfidence::kSoftmax;
};

// `results` and `baseline`: of the same images, one image each, and of one task; of classifiers
// every class, with its logit; of detectors with masks as run lengths where there are masks; of
// segmenters with run lengths. Classes that only one of the two models has agree with nothing.
// `confidences`: of classifiers. Where they are not shares in both, the divergence is the mean of
// the classes' own, of being there or not.
Agreement Agree(std::span<const Results> results, std::span<const Results> baseline,
                const ComparedConfidences& confidences = {});

// Of one image.
BriefAnswer Brief(const Results& results);

}  // namespace fovea
