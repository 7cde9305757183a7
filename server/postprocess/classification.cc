#include "server/postprocess/classification.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/status.h"

namespace fovea {
namespace {

static_assert(std::endian::native == std::endian::little, "raw tensors are little-endian");

constexpr std::string_view kLogitsOutput = "logits";

class Classification final : public TaskPostprocessor {
 public:
  explicit Classification(std::shared_ptr<const ModelView> model) : model_(std::move(model)) {}

  int64_t ResultBytes(const RequestOptions& options,
                      const PictureBounds& /*image*/) const override {
    return std::min<int64_t>(std::get<ClassifyOptions>(options).top_k, model_->num_classes) *
           RecordBytes(*model_);
  }

  absl::StatusOr<Results> Process(const RequestOptions& options, std::vector<OutputTensor> outputs,
                                  std::span<const ImageTransform> /*images*/,
                                  StillWanted /*wanted*/) const override {
    const int top_k = std::get<ClassifyOptions>(options).top_k;
    ClassifyResults results;
    for (const OutputTensor& output : outputs) {
      if (output.name != kLogitsOutput) continue;
      const auto images = static_cast<size_t>(output.shape[0]);
      std::vector<float> logits(output.data.size() / sizeof(float) / images);
      for (size_t image = 0; image < images; ++image) {
        std::memcpy(logits.data(), output.data.data() + image * logits.size() * sizeof(float),
                    logits.size() * sizeof(float));
        results.push_back(TopClasses(logits, top_k, *model_->labels, model_->sigmoid));
      }
    }
    return results;
  }

 private:
  const std::shared_ptr<const ModelView> model_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const TaskPostprocessor>> MakeClassification(
    std::shared_ptr<const ModelView> model) {
  const bool has_logits = std::any_of(
      model->outputs.begin(), model->outputs.end(), [](const TensorDescription& output) {
        return output.name == kLogitsOutput && output.type == DataType::kFp32;
      });
  if (!has_logits) {
    return FailedPrecondition("model.no_classifier",
                              "the model has no logits: it gives no classes");
  }
  return std::make_unique<const Classification>(std::move(model));
}

std::vector<int> LargestIndices(std::span<const float> values, size_t count) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  count = std::min(count, values.size());
  // NaN sorts last: the order has to be total.
  const auto rank = [&](int index) {
    return std::isnan(values[index]) ? -std::numeric_limits<float>::infinity() : values[index];
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](int a, int b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
  order.resize(count);
  return order;
}

std::vector<ClassScore> TopClasses(std::span<const float> logits, int count,
                                   std::span<const std::string> labels, bool sigmoid) {
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
    const double logit = logits[index];
    score.confidence =
        static_cast<float>(sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit - largest) / sum);
  }
  return classes;
}

}  // namespace fovea
