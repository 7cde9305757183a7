// A model's outputs as the tensors that a caller named.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"

namespace fovea {

// INVALID_ARGUMENT: an output that the model does not have, or classes of one that is not FP32
// [batch, classes].
absl::Status CheckWantedTensors(const WantedTensors& wanted, const ModelView& model);

// Of the elements that Triton's classification extension makes for one image, at most, in memory
// and as a message. `wanted` passes the check, here and below.
int64_t WantedTensorBytes(const WantedTensors& wanted, const ModelView& model);

// What the caller asked of the output; null where it does not want it.
const RequestedOutput* FindWanted(const WantedTensors& wanted, std::string_view output);

// Those of `outputs` that are wanted; with the extension in place of the numbers where it is asked
// for.
std::vector<OutputTensor> TakeWantedTensors(const WantedTensors& wanted, const ModelView& model,
                                            std::vector<OutputTensor> outputs);

// INVALID_ARGUMENT: the images of a request make `output` of different shapes.
absl::Status ImagesDiffer(std::string_view output);

// Triton's classification extension: of a tensor FP32 [batch, ...], each image's values flattened,
// the `count` largest as BYTES [batch, count] of "<value>:<index>[:<label>]".
OutputTensor ClassificationTensor(const OutputTensor& values, int64_t count,
                                  std::span<const std::string> labels);

}  // namespace fovea
