// How a model in other numbers answers, beside the same model in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "model_zoo/model.h"
#include "model_zoo/model_description.h"
#include "server/quantize/picture_reader.h"

namespace fovea {

struct ClassAgreement {
  int64_t pictures = 0;
  int64_t same_class = 0;  // the most probable one
  // KL(fp32 || other) of the classes' probabilities, mean, in nats; of sigmoids, where each class
  // is there or not, the mean of the classes' own.
  double divergence = 0;
  // Where the pictures have labels: how many each gets right.
  int64_t labelled = 0, right_in_fp32 = 0, right = 0;
};

// Divergence of each picture, [N], from the logits [N, classes] of both.
at::Tensor DivergenceOf(const at::Tensor& fp32, const at::Tensor& other,
                        models::ClassifierActivation activation);

// Both prepared, of one size and as many classes, whose confidences are as `activation` says. Reads
// the pictures in batches.
absl::StatusOr<ClassAgreement> CompareClasses(const models::Model& fp32, const models::Model& other,
                                              models::ClassifierActivation activation,
                                              const PictureReader& reader,
                                              std::span<const PictureFile> pictures);

}  // namespace fovea
