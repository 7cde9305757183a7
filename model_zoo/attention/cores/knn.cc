#include <c10/util/Exception.h>

#include <cmath>

#include "kernels/attention/attention_maps.h"
#include "kernels/attention/knn_attention/op.h"
#include "kernels/attention/knn_attention_exact/op.h"
#include "model_zoo/attention/cores/cores.h"

namespace fovea::models {
namespace {

class KnnCore final : public AttentionCore {
 public:
  KnnCore(int64_t topk, bool exact, double scale, double temperature)
      : topk_(topk), exact_(exact), scale_(scale / temperature), temperature_(temperature) {}

  at::Tensor Map(const at::Tensor& query, const at::Tensor& key,
                 const std::optional<at::Tensor>& bias) const override {
    if (exact_) return kernels::KnnAttentionExactMap(query, key, topk_, scale_, bias);
    return kernels::KnnAttentionMap(query, key, topk_, scale_, bias);
  }

  // From the operator's reference, whose own logits are taken back: right, but slow.
  at::Tensor Weigh(const at::Tensor& logits, const at::Tensor& query,
                   const at::Tensor& key) const override {
    const at::Tensor wanted = logits.to(at::kFloat) / temperature_;
    // What is nearest depends on the query; what is largest only on the logits.
    const at::Tensor weights =
        exact_ ? Map(query, key,
                     wanted - at::matmul(query.to(at::kFloat), key.to(at::kFloat).mT()) * scale_)
               : Map(at::zeros_like(query), key, wanted);
    return weights.to(logits.scalar_type());
  }

 private:
  at::Tensor DoAttend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const std::optional<at::Tensor>& bias) const override {
    if (exact_) return kernels::KnnAttentionExact(query, key, value, topk_, scale_, bias);
    return kernels::KnnAttention(query, key, value, topk_, scale_, bias);
  }

  const int64_t topk_;
  const bool exact_;
  const double scale_;
  const double temperature_;
};

}  // namespace

std::shared_ptr<const AttentionCore> MakeKnnCore(const AttentionSpec& spec, const CoreSite& site) {
  const int64_t topk = spec.k->Among(site.keys);
  TORCH_CHECK_VALUE(topk <= site.keys, "k=", topk, ", but a query sees only ", site.keys, " keys");
  const double scale = site.scale.value_or(1 / std::sqrt(static_cast<double>(site.head_dim)));
  return std::make_shared<KnnCore>(topk, spec.exact, scale, spec.temperature);
}

}  // namespace fovea::models
