// Products of the layer's parameters, and what they are good for.
//
// Given the context G, nothing nonlinear stands between x and Y. Row-vector notation, a row of ones
// appended to x for the biases ("augmented" below):
//   Y = x W_eff,  W_eff = W_v diag(G) U_1 U_2 + W_k U_2,  bias (b_v * G) U_1 U_2 + (b_k + b_1) U_2
//   + b_2.
// Nor does G need the keys. Per head, with w its saliency and s the softmax-weighted mean of x,
//   key_n . w = x_n . (W_k w) + const, and const does not change a softmax;  G = s W_k + b_k.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/attention/key_only_layer/op.h"

namespace fovea::kernels {

struct FoldedKeyOnlyWeights {
  // In fp32, for the context:
  at::Tensor gate;        // [H, C]: row h is W_k w of head h
  at::Tensor key_weight;  // [H, D, C]: the parameter
  at::Tensor key_bias;    // [H, D, 1]: the parameter, or zeros
  // In the parameters' type, rounded once, for the products over tokens:
  at::Tensor value;    // [C + 1, C]: W_v, b_v below it
  at::Tensor product;  // [C, C]: U_1 U_2
  at::Tensor direct;   // [C + 1, C]: W_k U_2, (b_k + b_1) U_2 + b_2 below it

  // In this order, as an operator's list.
  std::vector<at::Tensor> List() const;
  static FoldedKeyOnlyWeights FromList(at::TensorList list);
};

// Plain ATen. Parameters of any floating type; their shapes have been checked.
FoldedKeyOnlyWeights Fold(const KeyOnlyWeights& weights);

}  // namespace fovea::kernels
