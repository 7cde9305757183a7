#include "model_zoo/blocks/attend.h"

#include <utility>

namespace fovea::models {

at::Tensor AttendAndRecordMap(const AttentionModule& attention, at::Tensor tokens, const Grid& grid,
                              ForwardContext& context, const std::string& name) {
  if (context.Recording() && context.WantsMaps()) {
    const at::Tensor map = attention.Map(tokens, grid);
    if (map.defined()) context.RecordMap(name, map, grid);
  }
  return attention.forward(std::move(tokens), grid);
}

}  // namespace fovea::models
