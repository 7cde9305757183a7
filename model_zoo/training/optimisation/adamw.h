// AdamW: Adam with decoupled weight decay. Loshchilov and Hutter, ICLR 2019, algorithm 2.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "model_zoo/weights/safetensors_writer.h"

namespace fovea::models::training {

class AdamW {
 public:
  struct Options {
    double beta1 = 0.9;
    double beta2 =
        0.99;  // lower than the usual 0.999: short trainings forget their first steps sooner
    double epsilon = 1e-8;
    double weight_decay = 0.05;  // times the learning rate, taken from each weight at each step
  };

  explicit AdamW(Options options);

  // An FP32 leaf that requires a gradient. Matrices decay; biases, norms and embeddings should not.
  void Add(const at::Tensor& parameter, bool decays);

  // Forgets the gradients of the step before.
  void ZeroGradients();
  // Scales all gradients down so that their common norm is at most `limit`; returns the norm
  // before. Infinite or not a number where a gradient is: Step must not follow then.
  double ClipGradients(double limit);
  // Every parameter must have a gradient.
  void Step(double learning_rate);

  // All that it remembers between steps, by names that follow from the order of Add: to be stored,
  // or to be filled with what was stored.
  std::vector<NamedTensor> State() const;

 private:
  struct Group {
    double weight_decay;
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> means, squares,
        steps;  // the two moments, and how often they were updated
  };
  static std::vector<at::Tensor> GradientsOf(const Group& group);

  const Options options_;
  std::array<Group, 2> groups_;  // with and without decay
};

}  // namespace fovea::models::training
