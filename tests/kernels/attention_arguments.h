// Arguments of the attention operators that are right, to be spoilt one at a time; and what the
// operators say of them.
#pragma once
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention/axial_window_attention/op.h"
#include "kernels/attention/conv_static_key_attention/op.h"
#include "kernels/attention/criss_cross_attention/op.h"
#include "kernels/attention/dense_attention/op.h"
#include "kernels/attention/knn_attention_exact/op.h"
#include "kernels/attention/static_key_attention/op.h"
#include "kernels/attention/window_attention/op.h"

namespace fovea::kernels {

using OptionalTensor = std::optional<at::Tensor>;

inline std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

struct TokenArguments {
  at::Tensor query = at::randn({2, 3, 5, 8});
  at::Tensor key = at::randn({2, 3, 7, 8});
  at::Tensor value = at::randn({2, 3, 7, 8});
  std::optional<double> scale = std::nullopt;
  OptionalTensor bias = std::nullopt;
};
struct Dense : TokenArguments {
  std::string Error() const {
    return ErrorOf([&] { DenseAttention(query, key, value, scale, bias); });
  }
};
struct Exact : TokenArguments {
  int64_t topk = 3;
  std::string Error() const {
    return ErrorOf([&] { KnnAttentionExact(query, key, value, topk, scale, bias); });
  }
};
struct StaticKey {
  at::Tensor query = at::randn({2, 3, 5, 8});
  at::Tensor static_key = at::randn({3, 7, 8});
  at::Tensor value = at::randn({2, 3, 7, 8});
  std::string activation = "softmax";
  std::optional<double> scale = std::nullopt;
  double activation_scale = 1.0;
  double activation_bias = 0.0;
  std::string Error() const {
    return ErrorOf([&] {
      StaticKeyAttention(query, static_key, value, activation, scale, activation_scale,
                         activation_bias);
    });
  }
};
struct ConvStaticKey {
  at::Tensor query = at::randn({2, 3, 7, 8});
  at::Tensor value = at::randn({2, 3, 7, 8});
  std::vector<int64_t> grid = {2, 3};
  at::Tensor weight = at::randn({18, 8, 3, 3});
  OptionalTensor bias = at::randn({18});
  OptionalTensor cls_key = at::randn({3, 1, 8});
  std::string activation = "softmax";
  std::optional<double> scale = std::nullopt;
  double activation_scale = 1.0;
  double activation_bias = 0.0;
  std::string Error() const {
    return ErrorOf([&] {
      ConvStaticKeyAttention(query, value, grid, weight, bias, cls_key, activation, scale,
                             activation_scale, activation_bias);
    });
  }
};
struct MapArguments {
  at::Tensor query = at::randn({2, 4, 6, 8, 16});
  at::Tensor key = at::randn({2, 4, 6, 8, 16});
  at::Tensor value = at::randn({2, 4, 6, 8, 16});
  std::optional<double> scale = std::nullopt;
};
struct Windows : MapArguments {
  std::vector<int64_t> window = {3, 4};
  std::vector<int64_t> shift = {0, 0};
  OptionalTensor bias = std::nullopt;
  std::string Error() const {
    return ErrorOf([&] { WindowAttention(query, key, value, window, shift, scale, bias); });
  }
};
struct CrissCross : MapArguments {
  std::string Error() const {
    return ErrorOf([&] { CrissCrossAttention(query, key, value, scale); });
  }
};
struct Axial : MapArguments {
  int64_t window = 5;
  int64_t shift = 2;
  OptionalTensor bias_rows = at::randn({1, 8, 8});
  OptionalTensor bias_columns = at::randn({1, 6, 6});
  OptionalTensor bias_window = at::randn({2, 25, 25});
  OptionalTensor pad_key = at::randn({2, 16});
  OptionalTensor pad_value = at::randn({2, 16});
  std::string Error() const {
    return ErrorOf([&] {
      AxialWindowAttention(query, key, value, window, shift, scale, bias_rows, bias_columns,
                           bias_window, pad_key, pad_value);
    });
  }
};

// The operator's name, as its messages begin.
inline std::string NameOf(const Dense&) { return "dense_attention: "; }
inline std::string NameOf(const Exact&) { return "knn_attention_exact: "; }
inline std::string NameOf(const StaticKey&) { return "static_key_attention: "; }
inline std::string NameOf(const ConvStaticKey&) { return "conv_static_key_attention: "; }
inline std::string NameOf(const Windows&) { return "window_attention: "; }
inline std::string NameOf(const CrissCross&) { return "criss_cross_attention: "; }
inline std::string NameOf(const Axial&) { return "axial_window_attention: "; }

// Expects `message` once `spoil(arguments)` has been at arguments that are right.
template <class Arguments, class Spoil>
void Refuses(const std::string& message, const Spoil& spoil) {
  Arguments arguments;
  spoil(arguments);
  EXPECT_EQ(arguments.Error(), NameOf(arguments) + message);
}

}  // namespace fovea::kernels
