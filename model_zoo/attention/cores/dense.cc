#include <ATen/ATen.h>

#include <cmath>

#include "kernels/attention/attention_maps.h"
#include "kernels/attention/dense_attention/op.h"
#include "kernels/attention/window_attention/op.h"
#include "model_zoo/attention/cores/cores.h"
#include "model_zoo/attention/windows.h"

namespace fovea::models {
namespace {

class DenseCore final : public AttentionCore {
 public:
  DenseCore(double scale, double temperature)
      : scale_(scale / temperature), temperature_(temperature) {}

  at::Tensor Map(const at::Tensor& query, const at::Tensor& key,
                 const std::optional<at::Tensor>& bias) const override {
    return kernels::DenseAttentionMap(query, key, scale_, bias);
  }

  at::Tensor Weigh(const at::Tensor& logits, const at::Tensor& /*query*/,
                   const at::Tensor& /*key*/) const override {
    return at::softmax(temperature_ == 1 ? logits : logits / temperature_, -1);
  }

  bool ReadsWindowMasks() const override { return false; }  // the kernel knows what is rolled

 private:
  at::Tensor DoAttend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const std::optional<at::Tensor>& bias) const override {
    // Gradients go through torch's operator: the kernel's go through its reference.
    const bool trains = at::GradMode::is_enabled() && query.requires_grad();
    if (!trains) return kernels::DenseAttention(query, key, value, scale_, bias);
    return at::scaled_dot_product_attention(query, key, value, bias, /*dropout_p=*/0.0,
                                            /*is_causal=*/false, scale_);
  }

  at::Tensor DoAttendWindows(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const Windows& windows,
                             const std::optional<at::Tensor>& bias) const override {
    return kernels::WindowAttention(query, key, value, windows.window(), windows.shift(), scale_,
                                    bias);
  }

  const double scale_;
  const double temperature_;
};

}  // namespace

std::shared_ptr<const AttentionCore> MakeDenseCore(const AttentionSpec& spec,
                                                   const CoreSite& site) {
  const double scale = site.scale.value_or(1 / std::sqrt(static_cast<double>(site.head_dim)));
  return std::make_shared<DenseCore>(scale, spec.temperature);
}

}  // namespace fovea::models
