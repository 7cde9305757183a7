#include "kernels/vision/rp_cpe/merge.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/contract.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kFunction = "MergeRpCpe";
constexpr std::string_view kPerBranch = "[branches, channels]";

void CheckContract(const RpCpeWeights& branches, const std::optional<RpCpeNorms>& norms) {
  const Contract contract(kFunction);
  const Contract::Argument weights{"weights", branches.weights};
  contract.HasRank(weights, 4, "[branches, channels, 3, 3]");
  contract.IsFloating(weights);
  contract.IsNotEmpty(weights, 0, "branch");
  contract.HasCount(weights, 2, 3, "kernel rows");
  contract.HasCount(weights, 3, 3, "kernel columns");
  const auto is_per_branch = [&](Contract::Argument argument) {
    contract.HasRank(argument, 2, kPerBranch);
    contract.HasTypeAndDeviceOf(argument, weights);
    contract.HasSizeOf(argument, weights, 0, "branch count");
    contract.HasSizeOf(argument, weights, 1, "channel count");
  };
  is_per_branch({"biases", branches.biases});
  if (!norms) return;
  is_per_branch({"gamma", norms->gamma});
  is_per_branch({"beta", norms->beta});
  is_per_branch({"running_mean", norms->running_mean});
  is_per_branch({"running_variance", norms->running_variance});
  contract.IsFinite("eps", norms->eps);
}

}  // namespace

RpCpeWeights MergeRpCpe(const RpCpeWeights& branches, const std::optional<RpCpeNorms>& norms) {
  CheckContract(branches, norms);
  at::Tensor weights = branches.weights.to(at::kDouble);
  at::Tensor biases = branches.biases.to(at::kDouble);
  if (norms) {
    const at::Tensor factor = norms->gamma.to(at::kDouble) *
                              at::rsqrt(norms->running_variance.to(at::kDouble) + norms->eps);
    weights = weights * factor.unsqueeze(-1).unsqueeze(-1);
    biases = (biases - norms->running_mean.to(at::kDouble)) * factor + norms->beta.to(at::kDouble);
  }
  const at::ScalarType type = branches.weights.scalar_type();
  return {weights.sum(0, /*keepdim=*/true).to(type), biases.sum(0, /*keepdim=*/true).to(type)};
}

}  // namespace fovea::kernels
