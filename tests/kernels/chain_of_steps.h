// What holds of chains of every kind.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/linear/linear_chain.h"

namespace fovea::kernels {

// What is around a block's attention: the output's projection, then norm and MLP. Layers of 192 to
// 192, 768 and again 192 channels, whose `matrix` and `norm` are a step's. draw(count, channels).
template <class Layer>
void ExpectAChainIsItsSteps(const Layer& proj, const Layer& fc1, const Layer& fc2,
                            const std::function<at::Tensor(int64_t, int64_t)>& draw) {
  for (const int64_t count : {3, 49, 197, 1000}) {
    const at::Tensor mixed = draw(count, 192), tokens = draw(count, 192);
    const std::vector<LinearStep> steps = {
        {.matrix = &proj.matrix, .residual = Residual::kGiven},
        {.matrix = &fc1.matrix, .norm = &fc1.norm, .activation = rows::Activation::kGelu},
        {.matrix = &fc2.matrix, .residual = Residual::kFirst}};
    const at::Tensor attended = RunChain({&steps[0], 1}, mixed, tokens);
    const at::Tensor hidden = RunChain({&steps[1], 1}, attended);
    LinearStep last = steps[2];
    last.residual = Residual::kGiven;
    const at::Tensor expected = RunChain({&last, 1}, hidden, attended);
    EXPECT_TRUE(at::equal(RunChain(steps, mixed, tokens), expected)) << count;
    // The same without the projection: the chain's own input is added.
    std::vector<LinearStep> mlp = {steps[1], steps[2]};
    mlp[1].residual = Residual::kInput;
    EXPECT_TRUE(at::equal(RunChain(mlp, attended), expected)) << count;
  }
}

}  // namespace fovea::kernels
