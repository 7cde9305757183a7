// How well objects are found, computed plainly while a model trains: the average precision at an
// IoU of 0.5. Everingham et al., "The PASCAL visual object classes challenge", IJCV 2010,
// section 4.2, with the area under the whole curve, as from 2010 on. pycocotools' AP50 takes 101
// points of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "model_zoo/training/data/loading/sample_loader.h"

namespace fovea::models::training {

class AveragePrecision {
 public:
  // What was found in an image: FP32 [D, 4], FP32 [D], INT64 [D] as the truth's labels. Each found
  // box, best first, takes the object of its class that it overlaps most, if that is free; what
  // lies in a crowd does not count.
  void Add(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& labels,
           const ImageTruth& truth);

  // The mean over the classes that were there; 0 where nothing was.
  double Mean() const;

 private:
  struct Found {
    float score;
    bool right;
  };
  struct OfClass {
    int64_t objects = 0;
    std::vector<Found> found;
  };
  static double Of(const OfClass& one);

  std::map<int64_t, OfClass> classes_;
};

// The object of `truth` that each of `boxes` [D, 4] with `labels` [D] shows: in the order of the
// boxes, the one of its class with the largest IoU of at least 0.5, if no box before took it. INT64
// [D]: kBackground where it shows none, kBetween where half of it lies in a crowd.
at::Tensor TakenObjects(const at::Tensor& boxes, const at::Tensor& labels, const ImageTruth& truth);

}  // namespace fovea::models::training
