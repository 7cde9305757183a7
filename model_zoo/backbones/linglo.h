#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// linglo_b0, linglo_b1, linglo_b2, and the paper's ablations: linglo_b0_cpe, linglo_b0_r_cpe,
// linglo_b0_p_cpe, linglo_b0_chhh, linglo_b0_cchh, linglo_b0_wo_c, linglo_wo_ch.
void RegisterLinGlo(BackboneRegistry& registry);

}  // namespace fovea::models
