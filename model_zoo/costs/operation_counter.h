// How many multiply-adds a model costs, counted from what its modules run.
//
// The convention: one multiply-add of a matrix product, a convolution or an attention operator
// counts as one; everything else (norms, activations, softmax, additions, pooling) as none, as in
// timm's and fvcore's tables. An attention operator counts by its definition, whatever way the
// kernel takes: k-NN attention as dense attention (all logits are computed), the key-only layer
// unfolded. Papers that print FLOPs with two to a multiply-add print twice this number.
#pragma once

#include <cstdint>
#include <memory>

namespace fovea::models {

// Counts the operators that the calling thread dispatches between its construction and its
// destruction; for models before Prepare, whose packed layers it does not know. One at a time in a
// thread.
class OperationCounter {
 public:
  OperationCounter();
  ~OperationCounter();
  OperationCounter(const OperationCounter&) = delete;
  OperationCounter& operator=(const OperationCounter&) = delete;

  int64_t multiply_adds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::models
