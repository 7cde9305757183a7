#include "server/quantize/class_agreement.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/status.h"
#include "model_zoo/forward_context.h"

namespace fovea {
namespace {

constexpr size_t kBatch = 16;

at::Tensor LogitsOf(const models::Model& model, const at::Tensor& pixels) {
  models::ForwardContext context;
  return model.Run(pixels, context).at(0).to(at::kDouble);
}

}  // namespace

at::Tensor DivergenceOf(const at::Tensor& fp32, const at::Tensor& other,
                        models::ClassifierActivation activation) {
  if (activation == models::ClassifierActivation::kSigmoid) {
    const auto part = [&](double sign) {  // 1: of being there; -1: of not being there
      const at::Tensor exact = at::log_sigmoid(sign * fp32);
      return exact.exp() * (exact - at::log_sigmoid(sign * other));
    };
    return (part(1) + part(-1)).mean(1);
  }
  const at::Tensor exact = at::log_softmax(fp32, 1);
  return (exact.exp() * (exact - at::log_softmax(other, 1))).sum(1);
}

absl::StatusOr<ClassAgreement> CompareClasses(const models::Model& fp32, const models::Model& other,
                                              models::ClassifierActivation activation,
                                              const PictureReader& reader,
                                              std::span<const PictureFile> pictures) {
  ClassAgreement sums;
  for (size_t i = 0; i < pictures.size(); i += kBatch) {
    const auto batch = pictures.subspan(i, std::min(kBatch, pictures.size() - i));
    FOVEA_ASSIGN_OR_RETURN(const at::Tensor pixels, reader.Read(batch));
    const at::Tensor exact = LogitsOf(fp32, pixels), found = LogitsOf(other, pixels);
    const at::Tensor exact_class = exact.argmax(1), found_class = found.argmax(1);
    sums.pictures += static_cast<int64_t>(batch.size());
    sums.same_class += exact_class.eq(found_class).sum().item<int64_t>();
    sums.divergence += DivergenceOf(exact, found, activation).sum().item<double>();
    for (size_t k = 0; k < batch.size(); ++k) {
      if (batch[k].label < 0) continue;
      const auto row = static_cast<int64_t>(k);
      ++sums.labelled;
      sums.right_in_fp32 += exact_class[row].item<int64_t>() == batch[k].label ? 1 : 0;
      sums.right += found_class[row].item<int64_t>() == batch[k].label ? 1 : 0;
    }
  }
  if (sums.pictures > 0) sums.divergence /= static_cast<double>(sums.pictures);
  return sums;
}

}  // namespace fovea
