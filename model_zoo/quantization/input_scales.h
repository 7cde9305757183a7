// What a step of eight bits stands for in each channel of a linear layer's input, found from
// inputs that it was given.
//   Scales follow Xiao et al., SmoothQuant, ICML 2023, equation 4: a channel's is its largest value
// to the power alpha over that of its weights to the power 1 - alpha, and then all of them times
// one factor; here alpha and the factor (how much is clipped) are each layer's own, those of a few
// with which the layer's output errs least on rows that it has seen.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone.h"

namespace fovea::models {

// What was found for one layer. Errors are of its output, in mean squares over the mean square of
// what is exact.
struct CalibratedLayer {
  std::string name;      // the backbone's own
  at::Tensor scales;     // FP32 [in]; undefined: each row's largest value does better by far
  double by_scales = 0;  // the error with the best scales
  double by_row = 0;     // with each row's largest value
};

// Runs `pass`, which is to take `backbone`, not prepared, through the pictures of the calibration,
// and finds the scales of every linear layer that runs in 8 bits. The layers are told
// (Linear::SetInputScales). Layers that saw no input are left out. Throws c10::ValueError where no
// layer runs in 8 bits, or an input was not finite.
std::vector<CalibratedLayer> CalibrateInputScales(Backbone& backbone,
                                                  const std::function<void()>& pass);

}  // namespace fovea::models
