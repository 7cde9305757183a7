// The checks that operators' contracts are made of. Each throws c10::Error, worded alike:
//   "knn_attention: topk must be in [1, 197] (key has 197 tokens), got 400".
// Sizes are symbolic, so that the same checks guard the meta implementations under torch.compile.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>
#include <c10/core/SymIntArrayRef.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace fovea::kernels {

class Contract {
 public:
  struct Argument {
    std::string_view name;
    const at::Tensor& tensor;
  };

  // `op`: the operator's name, which outlives the contract.
  explicit Contract(std::string_view op) : op_(op) {}

  // `layout` names the dimensions in the message, for example "[batch, heads, tokens, head_dim]".
  void HasRank(Argument argument, int64_t rank, std::string_view layout) const;
  void IsFloating(Argument argument) const;
  void HasTypeAndDeviceOf(Argument argument, Argument model) const;
  // An additive bias: `model`'s device, and its type or fp32.
  void IsBiasOf(Argument bias, Argument model) const;
  // int64 on `model`'s device.
  void IsIndicesOf(Argument argument, Argument model) const;
  void HasSizeOf(Argument argument, Argument model, int64_t dim, std::string_view dim_name) const;
  // `count` of what, in words.
  void HasCount(Argument argument, int64_t dim, const c10::SymInt& count,
                std::string_view what) const;
  // `layout` names the dimensions, as in HasRank.
  void HasShape(Argument argument, c10::SymIntArrayRef shape, std::string_view layout) const;
  // `product`: of which sizes it must be, for example "heads * head_dim = channels".
  void HasElements(Argument argument, const c10::SymInt& elements, std::string_view product) const;
  void IsFp32On(Argument argument, Argument model) const;
  void IsNotEmpty(Argument argument, int64_t dim, std::string_view dim_name) const;
  void IsContiguousInLastDim(Argument argument) const;
  void BroadcastsTo(Argument argument, c10::SymIntArrayRef shape, std::string_view layout) const;
  void HasLength(std::string_view name, at::IntArrayRef values, size_t length) const;
  // `value` >= 1, and `size`, which is `size_name`, a multiple of it.
  void Divides(std::string_view name, int64_t value, const c10::SymInt& size,
               std::string_view size_name) const;
  void IsMultipleOf(std::string_view name, const c10::SymInt& value, int64_t factor) const;
  // `value` in [low, high]; `why` says where `high` comes from.
  void IsWithin(std::string_view name, int64_t value, int64_t low, const c10::SymInt& high,
                std::string_view why) const;
  void IsOneOf(std::string_view name, std::string_view value,
               std::initializer_list<std::string_view> choices) const;
  // `value` left at `standard`, because of `why`.
  void IsDefault(std::string_view name, double value, double standard, std::string_view why) const;
  void IsFinite(std::string_view name, double value) const;

 private:
  std::string_view op_;
};

}  // namespace fovea::kernels
