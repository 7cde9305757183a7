// What the costs of a model are counted from: its description, and a pass that does all that there
// may be to do.
#pragma once

#include <cstdint>
#include <string_view>

#include "model_zoo/costs/papers.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/model.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

struct CountedModel {
  std::string_view backbone;
  std::string_view attention = {};  // "" for the published one
  std::string_view head = {};       // "" for the backbone's own classifier
  ImageSize size = {};              // 0: the published one
};

// The model of a paper's row.
CountedModel ModelOf(const PrintedCosts& row);

// With random weights; detectors by mmdetection's conventions. The backbone and the head are names
// of the registry.
ModelDescription Describe(const CountedModel& counted);

// Random weights find next to nothing: masks are counted for as many objects as a detector tells of
// at most, 100 as published. Proposals are the 1000 best that hardly overlap, and with random
// weights there are so many from 256 x 256 pixels on.
class FullestPass final : public ForwardContext {
 public:
  bool Fullest() const override { return true; }
};

// Of one image of the model's own size; a model before Prepare (OperationCounter).
int64_t MultiplyAdds(const Model& model);

}  // namespace fovea::models
