// The weight of a linear layer as the tiles of a chain read it (linear_chain.h): blocks of columns,
// one after the other.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace fovea::kernels {

// How rows are multiplied by a matrix.
enum class Products {
  kFp32,    // fp32 by fp32
  kBf16,    // bf16 by bf16, summed in fp32
  kBf16x3,  // fp32 as the sum of three bf16, six products of which are taken: as exact as fp32
  kInt8,    // s8 by s8, summed in s32 (cpu_int8.h), between rows of bf16 or of fp32
};

// Whether such products run on this machine at all (simd/gemm.h).
bool HasProducts(Products products);

// Whether matrices of such products are packed for simd/amx.h here; otherwise oneDNN multiplies
// (simd/gemm.h), of kInt8 cpu_int8.h.
bool HasAmxTilesFor(Products products);

// Immutable and thread-safe.
class PackedMatrix {
 public:
  // Output channels in a block; the last one has what is left, rounded up to 16.
  static constexpr int64_t kBlock = 64;
  // Of a block, the columns that AMX multiplies at a time: as many registers as it has for them.
  static constexpr int64_t kPanel = 32;

  // weight [out, in] and bias [out] or undefined, of any floating type.
  PackedMatrix(const at::Tensor& weight, const at::Tensor& bias, Products products)
      : PackedMatrix(weight, bias, products, HasAmxTilesFor(products)) {}
  // The same with `packed_for_amx` forced: false for oneDNN, or of kInt8 vectors, where AMX is.
  //   input_scales, of kInt8 only: FP32 [in], what an 8-bit step of each channel of the input
  // stands for; channels are then divided by it instead of each row by its largest value. Finite
  // and positive.
  PackedMatrix(const at::Tensor& weight, const at::Tensor& bias, Products products,
               bool packed_for_amx, const at::Tensor& input_scales = {});

  Products products() const { return products_; }
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  // `in` as the tiles have it: what is added is zero.
  int64_t depth() const { return depth_; }
  int64_t blocks() const { return (out_ + kBlock - 1) / kBlock; }
  int64_t Columns(int64_t block) const;
  bool packed_for_amx() const { return packed_for_amx_; }
  // fp32 or, with kBf16, bf16. For oneDNN [depth, columns], bf16 with pairs of rows interleaved,
  // [depth / 2, columns, 2]; packed_for_amx(), one panel after the other, as registers of AMX,
  // [depth / 32, columns / 16, 16, 16, 2], or [depth / 32, columns / 16, 32, 16] of fp32. The parts
  // of kBf16x3 are made where they are needed: three of two bytes are more to fetch than four
  // bytes.
  //   kInt8: fours of rows, [depth / 4, columns, 4], or panels of registers [depth / 64, columns /
  // 16, 16, 16, 4]; flips_sign(): with 128 added, as VNNI wants one side.
  const void* Block(int64_t block) const;
  const float* bias() const { return bias_.const_data_ptr<float>(); }  // zero without one
  int64_t bytes() const;

  // Of kInt8: a column's weights are its scale times integers between -127 and 127; the scale of
  // the inputs is in it. [out rounded up to 16].
  const float* scales() const { return scales_.const_data_ptr<float>(); }
  // One over input_scales, zero from `in` up to depth(); null without them.
  const float* inverse_input_scales() const {
    return inverse_input_scales_.defined() ? inverse_input_scales_.const_data_ptr<float>()
                                           : nullptr;
  }
  bool flips_sign() const { return flips_sign_; }

 private:
  // The weight in integers; sets the scales.
  at::Tensor Quantised(const at::Tensor& weight, const at::Tensor& input_scales);

  Products products_;
  bool packed_for_amx_;
  int64_t in_, out_, depth_;
  at::Tensor blocks_;
  at::Tensor bias_;  // fp32 [out rounded up to 16]
  at::Tensor scales_, inverse_input_scales_;
  bool flips_sign_ = false;
};

}  // namespace fovea::kernels
