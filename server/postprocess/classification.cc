#include "server/postprocess/classification.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace fovea {
namespace {

static_assert(std::endian::native == std::endian::little,
              "raw tensors are little-endian on the wire");

// Indices of the `count` largest values, best first.
std::vector<int> LargestIndices(std::span<const float> values, size_t count) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  count = std::min(count, values.size());
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int a, int b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  order.resize(count);
  return order;
}

}  // namespace

std::vector<ClassScore> TopClasses(std::span<const float> logits, int count,
                                   std::span<const std::string> labels) {
  if (logits.empty()) return {};
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  std::vector<ClassScore> classes;
  for (int index : LargestIndices(logits, static_cast<size_t>(std::max(count, 0)))) {
    ClassScore& score = classes.emplace_back();
    score.index = index;
    if (static_cast<size_t>(index) < labels.size()) score.label = labels[index];
    score.logit = logits[index];
    score.confidence =
        static_cast<float>(std::exp(static_cast<double>(logits[index]) - largest) / sum);
  }
  return classes;
}

void AppendBytesElement(std::string_view element, std::string* data) {
  const auto length = static_cast<uint32_t>(element.size());
  data->append(reinterpret_cast<const char*>(&length), sizeof(length));
  data->append(element);
}

OutputTensor ClassificationTensor(const OutputTensor& values, int64_t count,
                                  std::span<const std::string> labels) {
  FOVEA_CHECK(values.type == DataType::kFp32 && !values.shape.empty());
  const int64_t batch = values.shape[0];
  const size_t width = batch == 0 ? 0 : values.data.size() / sizeof(float) / batch;
  count = std::min<int64_t>(count, static_cast<int64_t>(width));
  OutputTensor result{values.name, DataType::kBytes, {batch, count}, ""};
  std::vector<float> row(width);
  for (int64_t image = 0; image < batch; ++image) {
    std::memcpy(row.data(), values.data.data() + image * width * sizeof(float),
                width * sizeof(float));
    for (int index : LargestIndices(row, static_cast<size_t>(count))) {
      std::string element = absl::StrFormat("%f:%d", row[index], index);
      if (static_cast<size_t>(index) < labels.size()) absl::StrAppend(&element, ":", labels[index]);
      AppendBytesElement(element, &result.data);
    }
  }
  return result;
}

}  // namespace fovea
