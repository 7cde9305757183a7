// From logits to weights, a tile of keys at a time, in the registers of one warp
// (kernels/cuda/warp_product.h says who holds what).
#pragma once
#include <cmath>

#include "kernels/attention/shared/activation.h"
#include "kernels/cuda/warp.h"
#include "kernels/cuda/warp_product.h"

namespace fovea::kernels::cuda {

// Softmax, one tile after the other: weights are relative to the largest logit so far, and what was
// summed before is scaled down when a larger one comes (Milakov and Gimelshein, Online normalizer
// calculation for softmax, 2018). A row of which everything is -inf has weights 0; a NaN or a +inf
// makes its sum NaN.
class OnlineSoftmax {
 public:
  struct Parameters {};
  static Parameters ParametersOf(const Activation&) { return {}; }

  __device__ explicit OnlineSoftmax(Parameters) {}

  // Goes on where another left off.
  __device__ void Resume(int i, float largest, float sum) {
    largest_[i] = largest;
    sum_[i] = LaneId() % 4 == 0 ? sum : 0.0f;  // Sum() adds the four lanes of a row
  }

  // Logits into weights; scales `output`, which the weights before have been used for. Keys that
  // there are none of have logits of -inf.
  template <int kN, int kOutputN>
  __device__ void Weigh(float (&logits)[kN][4], int /*keys*/, float (&output)[kOutputN][4]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float largest = largest_[i];
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        largest = fmaxf(largest, fmaxf(logits[n][2 * i], logits[n][2 * i + 1]));
      }
      largest = QuadMax(largest);
      const float base = largest == -INFINITY ? 0.0f : largest;
      const float rescale = Exp(largest_[i] - base);
      largest_[i] = largest;
      sum_[i] *= rescale;
#pragma unroll
      for (int n = 0; n < kOutputN; ++n) {
        output[n][2 * i] *= rescale;
        output[n][2 * i + 1] *= rescale;
      }
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int c = 2 * i; c < 2 * i + 2; ++c) {
          logits[n][c] = Exp(logits[n][c] - base);
          sum_[i] += logits[n][c];
        }
      }
    }
  }

  __device__ float Largest(int i) const { return largest_[i]; }
  __device__ float Sum(int i) const { return QuadSum(sum_[i]); }
  // What the output is to be multiplied with in the end.
  __device__ float Factor(int i) const {
    const float sum = Sum(i);
    return sum == 0.0f ? 0.0f : 1.0f / sum;
  }

 private:
  __device__ static float Exp(float x) { return exp2f(x * 1.44269504f); }

  float largest_[2] = {-INFINITY, -INFINITY};
  float sum_[2] = {};  // of the lane's own weights
};

// gelu, relu and star_relu: each logit by itself.
class Elementwise {
 public:
  struct Parameters {
    ActivationKind kind;
    float scale, bias;
  };
  static Parameters ParametersOf(const Activation& activation) {
    return {activation.kind, static_cast<float>(activation.scale),
            static_cast<float>(activation.bias)};
  }

  __device__ explicit Elementwise(Parameters parameters) : parameters_(parameters) {}

  template <int kN, int kOutputN>
  __device__ void Weigh(float (&logits)[kN][4], int keys, float (&)[kOutputN][4]) const {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        logits[n][i] = ColumnOf(n, i % 2) < keys ? Activate(logits[n][i]) : 0.0f;
      }
    }
  }

  __device__ float Factor(int) const { return 1.0f; }

 private:
  __device__ float Activate(float x) const {
    if (parameters_.kind == ActivationKind::kGelu) {
      return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    }
    const float positive = x < 0.0f ? 0.0f : x;  // keeps NaN
    if (parameters_.kind == ActivationKind::kRelu) return positive;
    return fmaf(positive * positive, parameters_.scale, parameters_.bias);
  }

  Parameters parameters_;
};

// Calls run(null pointer to Weights) with the class that an activation takes.
template <class Run>
void ForWeights(const Activation& activation, const Run& run) {
  if (activation.kind == ActivationKind::kSoftmax) {
    run(static_cast<OnlineSoftmax*>(nullptr));
  } else {
    run(static_cast<Elementwise*>(nullptr));
  }
}

}  // namespace fovea::kernels::cuda
