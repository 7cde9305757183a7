#include "model_zoo/blocks/attend.h"

#include <utility>

namespace fovea::models {

at::Tensor AttendAndRecordMap(const AttentionModule& attention, at::Tensor tokens, const Grid& grid,
                              ForwardContext& context, const std::string& name) {
  if (context.Recording() && context.WantsMaps() &&
      context.WantsMap(name, attention.heads(), grid)) {
    at::Tensor map = attention.Map(tokens, grid);
    if (map.defined()) {
      at::Tensor attended;
      if (context.DifferentiatesMaps()) {
        if (!map.requires_grad()) map = map.detach().requires_grad_();
        attended = attention.Apply(map, tokens, grid);
      }
      context.RecordMap(name, map, grid);
      if (attended.defined()) return attended;
    }
  }
  return attention.forward(std::move(tokens), grid);
}

at::Tensor AttendThenMlp(const LayerNorm& norm, const AttentionModule& attention,
                         const std::array<LinearLink, 2>& mlp, at::Tensor tokens, const Grid& grid,
                         const at::Tensor& residual_scale) {
  if (attention.projection() == nullptr) {
    at::Tensor mixed = attention.forward(norm.forward(tokens), grid);
    at::Tensor attended = residual_scale.defined()
                              ? at::addcmul(mixed, tokens, residual_scale.to(mixed.scalar_type()))
                              : tokens + mixed;
    // The peak of a pass is in the MLP: what lives on there is paid for.
    tokens.reset();
    mixed.reset();
    return RunLinears(mlp, std::move(attended));
  }
  at::Tensor mixed = attention.Mix(tokens, &norm, grid);
  std::array<LinearLink, 3> links = {LinearLink{.linear = attention.projection(),
                                                .residual = Residual::kGiven,
                                                .residual_scale = residual_scale},
                                     mlp[0], mlp[1]};
  links[2].residual = Residual::kFirst;
  return RunLinears(links, std::move(mixed), std::move(tokens));
}

}  // namespace fovea::models
