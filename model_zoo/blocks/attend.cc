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

}  // namespace fovea::models
