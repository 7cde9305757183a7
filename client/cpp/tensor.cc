#include "client/cpp/tensor.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fovea::client {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

absl::Status Wrong(const Tensor& tensor, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, ": ", what));
}

}  // namespace

Tensor FloatTensor(std::string name, std::vector<int64_t> shape, absl::Span<const float> values) {
  std::string data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return {std::move(name), "FP32", std::move(shape), std::move(data)};
}

Tensor ByteTensor(std::string name, std::vector<int64_t> shape, absl::Span<const uint8_t> values) {
  std::string data(reinterpret_cast<const char*>(values.data()), values.size());
  return {std::move(name), "UINT8", std::move(shape), std::move(data)};
}

Tensor StringTensor(std::string name, absl::Span<const std::string> elements) {
  std::string data;
  for (const std::string& element : elements) {
    const auto length = static_cast<uint32_t>(element.size());
    data.append(reinterpret_cast<const char*>(&length), sizeof(length));
    data.append(element);
  }
  return {std::move(name), "BYTES", {static_cast<int64_t>(elements.size()), 1}, std::move(data)};
}

absl::StatusOr<std::vector<float>> Floats(const Tensor& tensor) {
  if (tensor.datatype != "FP32") {
    return Wrong(tensor, absl::StrCat("has the type ", tensor.datatype, ", not FP32"));
  }
  uint64_t elements = 1;
  for (int64_t side : tensor.shape) {
    // Checked in every step, so that the product cannot overflow.
    if (side < 0 || (side > 0 && elements > tensor.data.size() / side)) {
      return Wrong(tensor, "the shape does not fit the data");
    }
    elements *= side;
  }
  if (elements * sizeof(float) != tensor.data.size()) {
    return Wrong(tensor, "the shape does not fit the data");
  }
  std::vector<float> values(elements);
  if (elements > 0) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

absl::StatusOr<std::vector<std::string>> Strings(const Tensor& tensor) {
  if (tensor.datatype != "BYTES") {
    return Wrong(tensor, absl::StrCat("has the type ", tensor.datatype, ", not BYTES"));
  }
  std::vector<std::string> elements;
  for (size_t at = 0; at < tensor.data.size();) {
    uint32_t length = 0;
    if (tensor.data.size() - at < sizeof(length)) return Wrong(tensor, "a length is cut off");
    std::memcpy(&length, tensor.data.data() + at, sizeof(length));
    at += sizeof(length);
    if (tensor.data.size() - at < length) return Wrong(tensor, "an element is cut off");
    elements.push_back(tensor.data.substr(at, length));
    at += length;
  }
  return elements;
}

}  // namespace fovea::client
