#include "model_zoo/quantization/input_scales.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "model_zoo/layers/linear.h"

namespace fovea::models {
namespace {

constexpr int64_t kRowsOfAPass = 32;  // kept of each input that a layer sees
constexpr int64_t kMostRows = 512;    // of a layer
constexpr double kAlphas[] = {0.0, 0.25, 0.5, 0.75};
constexpr double kFactors[] = {1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4};
// Scales are taken where they err no more than this times what rows by themselves do.
constexpr double kWorthIt = 2.0;
constexpr double kMost = 127;

// What a layer has seen.
class SeenInputs {
 public:
  void See(const at::Tensor& input) {
    const at::Tensor rows = input.detach().reshape({-1, input.size(-1)}).to(at::kFloat);
    const at::Tensor largest = rows.abs().amax(0);
    largest_ = largest_.defined() ? at::maximum(largest_, largest) : largest;
    const int64_t count = std::min({kRowsOfAPass, rows.size(0), kMostRows - kept_});
    if (count <= 0) return;
    // Spread over the pictures and their tokens.
    const at::Tensor places =
        (at::arange(count, at::kDouble) * (static_cast<double>(rows.size(0)) / count))
            .to(at::kLong);
    rows_.push_back(rows.index_select(0, places));
    kept_ += count;
  }

  bool empty() const { return rows_.empty(); }
  at::Tensor rows() const { return at::cat(rows_); }
  const at::Tensor& largest() const { return largest_; }  // of each channel

 private:
  int64_t kept_ = 0;
  std::vector<at::Tensor> rows_;
  at::Tensor largest_;
};

// x in whole steps of `steps`, and back.
at::Tensor InSteps(const at::Tensor& x, const at::Tensor& steps) {
  return (x / steps).round().clamp(-kMost - 1, kMost) * steps;
}

// As kernels/linear/packed_matrix.h has it: [out, in] by output channel.
at::Tensor WeightInSteps(const at::Tensor& weight) {
  const at::Tensor largest = weight.abs().amax(1, /*keepdim=*/true);
  return InSteps(weight, at::where(largest > 0, largest / kMost, 1.0));
}

class Errors {
 public:
  Errors(const at::Tensor& rows, const at::Tensor& weight)
      : rows_(rows),
        weight_(weight),
        exact_(at::matmul(rows, weight.t())),
        whole_(exact_.square().mean().item<double>()) {}

  double ByRow() const {
    const at::Tensor largest = rows_.abs().amax(1, /*keepdim=*/true);
    return Of(InSteps(rows_, at::where(largest > 0, largest / kMost, 1.0)), WeightInSteps(weight_));
  }
  double ByScales(const at::Tensor& scales) const {
    const at::Tensor whole = InSteps(rows_, scales) / scales;
    return Of(whole, WeightInSteps(weight_ * scales));
  }

 private:
  double Of(const at::Tensor& rows, const at::Tensor& weight) const {
    const double error = (at::matmul(rows, weight.t()) - exact_).square().mean().item<double>();
    return whole_ > 0 ? error / whole_ : error;
  }

  const at::Tensor rows_, weight_, exact_;
  const double whole_;
};

CalibratedLayer Calibrated(const std::string& name, const Linear& layer, const SeenInputs& seen) {
  const at::Tensor weight = layer.Weight().to(at::kFloat);
  // A channel that was zero throughout may be anything: a share of the others' steps.
  const at::Tensor largest =
      seen.largest().clamp_min(seen.largest().max().item<double>() * 1e-3).clamp_min(1e-20);
  TORCH_CHECK_VALUE(largest.isfinite().all().item<bool>(), "the inputs of ", name,
                    " are not all finite");
  const at::Tensor of_weight = weight.abs().amax(0);
  const at::Tensor weights = of_weight.clamp_min(of_weight.max().item<double>() * 1e-3);
  const Errors errors(seen.rows(), weight);
  CalibratedLayer found{.name = name, .by_row = errors.ByRow()};
  for (const double alpha : kAlphas) {
    const at::Tensor shape =
        alpha > 0 ? largest.pow(alpha) / weights.pow(1 - alpha) : at::ones_like(largest);
    // So that the largest value of some channel is 127 steps.
    const at::Tensor whole = shape * ((largest / shape).max() / kMost);
    for (const double factor : kFactors) {
      const at::Tensor scales = whole * factor;
      const double error = errors.ByScales(scales);
      if (!found.scales.defined() || error < found.by_scales) {
        found.scales = scales;
        found.by_scales = error;
      }
    }
  }
  if (found.by_scales > kWorthIt * found.by_row) found.scales = at::Tensor();
  return found;
}

}  // namespace

std::vector<CalibratedLayer> CalibrateInputScales(Backbone& backbone,
                                                  const std::function<void()>& pass) {
  TORCH_INTERNAL_ASSERT(!backbone.prepared(), "calibration watches layers that are not prepared");
  const at::NoGradGuard no_grad;
  std::map<std::string, Linear*> layers;
  std::map<std::string, SeenInputs> seen;
  const auto modules = backbone.named_modules();
  for (const auto& module : modules) {
    auto* const linear = dynamic_cast<Linear*>(module.value().get());
    if (linear == nullptr || linear->keeps_precision()) continue;
    layers.emplace(module.key(), linear);
    SeenInputs& inputs = seen[module.key()];
    linear->Watch([&inputs](const at::Tensor& input) { inputs.See(input); });
  }
  TORCH_CHECK_VALUE(!layers.empty(), backbone.info().backbone,
                    " has no linear layer that runs in INT8");
  pass();
  std::vector<CalibratedLayer> found;
  for (const auto& [name, layer] : layers) {
    layer->Watch(nullptr);
    const SeenInputs& inputs = seen.at(name);
    if (inputs.empty()) continue;
    found.push_back(Calibrated(name, *layer, inputs));
    if (found.back().scales.defined()) layer->SetInputScales(found.back().scales);
  }
  return found;
}

}  // namespace fovea::models
