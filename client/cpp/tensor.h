// A tensor as the Open Inference Protocol carries it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace fovea::client {

struct Tensor {
  std::string name;
  std::string datatype;        // BOOL, UINT8 ... INT64, FP16, BF16, FP32, FP64 or BYTES
  std::vector<int64_t> shape;  // the first dimension is the batch's
  // Row-major and little-endian, without padding; an element of a BYTES tensor is its length as a
  // uint32 and its bytes.
  std::string data;
};

// FP32. `values` holds as many numbers as `shape` says.
Tensor FloatTensor(std::string name, std::vector<int64_t> shape, absl::Span<const float> values);

// UINT8, for example `image_rgb` [images, height, width, 3].
Tensor ByteTensor(std::string name, std::vector<int64_t> shape, absl::Span<const uint8_t> values);

// BYTES of shape [elements, 1], for example the input `image`: encoded files, one an element.
Tensor StringTensor(std::string name, absl::Span<const std::string> elements);

// The numbers of an FP32 tensor. INVALID_ARGUMENT: another type, or a size that its shape does not
// give.
absl::StatusOr<std::vector<float>> Floats(const Tensor& tensor);

// The elements of a BYTES tensor. INVALID_ARGUMENT: another type, or lengths that do not fit the
// data.
absl::StatusOr<std::vector<std::string>> Strings(const Tensor& tensor);

}  // namespace fovea::client
