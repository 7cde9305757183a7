// Logits to classes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/core/request.h"
#include "server/core/tensor.h"

namespace fovea {

// The `count` largest logits of one image, best first, with softmax confidences over all classes;
// ties go to the lower index. `logits` [classes], finite. `labels` is by class index, or empty.
// Fewer classes than `count`: all of them.
std::vector<ClassScore> TopClasses(std::span<const float> logits, int count,
                                   std::span<const std::string> labels);

// Triton's classification extension: of a tensor FP32 [batch, ...], each image's values flattened,
// the `count` largest as BYTES [batch, count] of "<value>:<index>[:<label>]". Admission lets only
// FP32 outputs be asked for so.
OutputTensor ClassificationTensor(const OutputTensor& values, int64_t count,
                                  std::span<const std::string> labels);

// Appends one element of a BYTES tensor: a little-endian uint32 length and the bytes.
void AppendBytesElement(std::string_view element, std::string* data);

}  // namespace fovea
