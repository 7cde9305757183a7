#include <ATen/ATen.h>
#include <ATen/cpu/Utils.h>

#include <cmath>

#include "kernels/attention/knn_attention/op.h"
#include "kernels/simd/isa.h"
#include "model_zoo/attention/cores.h"

namespace fovea::models {
namespace {

// LibTorch reaches AMX tiles, Fovea's kernels do not.
bool HasAmx() {
  static const bool has = [] {
    const auto facts = at::cpu::get_cpu_capabilities();
    const auto found = facts.find("amx_bf16");
    return found != facts.end() && found->second.isBool() && found->second.toBool();
  }();
  return has;
}

// Whether the k-NN kernel, asked for every key, is the faster dense attention. Without AMX it was:
// 2.4 to 3 times in fp32 and 4 to 5 in bf16 with AVX-512 (docs/results/bench_cpu.md, "k = N"), and
// by less with AVX2. Gradients go through torch's operator: the kernel's go through its reference.
bool OwnKernelIsFaster(const at::Tensor& query) {
  if (!query.device().is_cpu() || (at::GradMode::is_enabled() && query.requires_grad()) ||
      kernels::simd::CurrentIsa() == kernels::simd::Isa::kNone) {
    return false;
  }
  return query.scalar_type() == at::kFloat || (query.scalar_type() == at::kBFloat16 && !HasAmx());
}

class DenseCore final : public AttentionCore {
 public:
  explicit DenseCore(double scale) : scale_(scale) {}

  at::Tensor Attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& bias) const override {
    if (OwnKernelIsFaster(query)) {
      return kernels::KnnAttention(query, key, value, /*topk=*/key.size(2), scale_, bias);
    }
    return at::scaled_dot_product_attention(query, key, value, bias, /*dropout_p=*/0.0,
                                            /*is_causal=*/false, scale_);
  }

 private:
  const double scale_;
};

}  // namespace

std::shared_ptr<const AttentionCore> MakeDenseCore(const AttentionSpec& spec,
                                                   const CoreSite& site) {
  const double scale = site.scale.value_or(1 / std::sqrt(static_cast<double>(site.head_dim)));
  return std::make_shared<DenseCore>(scale / spec.temperature);
}

}  // namespace fovea::models
