#include "kernels/linear/packed_matrix.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "kernels/simd/amx_layout.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"

namespace fovea::kernels {
namespace {

constexpr float kMostInt8 = 127;

using simd::RoundUp;

// [depth, columns] to pairs of rows, [depth / 2, columns, 2].
at::Tensor InPairs(const at::Tensor& block) {
  return block.unflatten(0, {-1, 2}).transpose(1, 2).flatten();
}

// The same to AMX's registers, [depth / 32, columns / 16, 16, 16, 2]; fp32, which becomes parts,
// with its rows whole, [depth / 32, columns / 16, 32, 16].
at::Tensor InRegisters(const at::Tensor& panel) {
  const at::Tensor registers =
      panel.unflatten(1, {-1, simd::kRegister}).unflatten(0, {-1, simd::kStep / 2, 2});
  const bool pairs = panel.scalar_type() == at::kBFloat16;
  return registers.permute(pairs ? at::IntArrayRef{0, 3, 1, 4, 2} : at::IntArrayRef{0, 3, 1, 2, 4})
      .flatten();
}

// [depth, columns] of kInt8 to fours of rows, [depth / 4, columns, 4].
at::Tensor InFours(const at::Tensor& block) {
  return block.unflatten(0, {-1, 4}).transpose(1, 2).flatten();
}

// Or to AMX's registers of them, [depth / 64, columns / 16, 16, 16, 4].
at::Tensor InRegistersOfFours(const at::Tensor& panel) {
  return panel.unflatten(0, {-1, simd::kInt8Step / 4, 4})
      .unflatten(3, {-1, simd::kRegister})
      .permute({0, 3, 1, 4, 2})
      .flatten();
}

int64_t DepthStep(Products products) {
  if (products == Products::kFp32) return 1;
  return products == Products::kInt8 ? simd::kInt8Step : simd::kStep;
}

c10::ScalarType TypeOf(Products products) {
  if (products == Products::kBf16) return at::kBFloat16;
  return products == Products::kInt8 ? at::kChar : at::kFloat;
}

}  // namespace

bool HasProducts(Products products) {
  switch (products) {
    case Products::kFp32:
      return simd::HasFp32Gemm();
    case Products::kBf16:
      return simd::HasBf16Gemm();
    case Products::kBf16x3:
      return HasAmxTilesFor(products);
    case Products::kInt8:
      return simd::CurrentIsa() != simd::Isa::kNone;
  }
  return false;
}

bool HasAmxTilesFor(Products products) {
  if (products == Products::kFp32) return false;
  return simd::HasAmxTiles() && (products != Products::kInt8 || simd::HasAmxInt8());
}

PackedMatrix::PackedMatrix(const at::Tensor& weight, const at::Tensor& bias, Products products,
                           bool packed_for_amx, const at::Tensor& input_scales)
    : products_(products),
      packed_for_amx_(packed_for_amx),
      in_(weight.size(1)),
      out_(weight.size(0)) {
  depth_ = RoundUp(in_, DepthStep(products));
  const int64_t wide = RoundUp(out_, simd::kRegister);
  bias_ = at::zeros({wide}, at::kFloat);
  if (bias.defined()) bias_.narrow(0, 0, out_).copy_(bias);
  at::Tensor transposed = at::zeros({depth_, wide}, TypeOf(products));
  const at::Tensor filled = transposed.narrow(0, 0, in_).narrow(1, 0, out_);
  filled.copy_(products == Products::kInt8 ? Quantised(weight, input_scales).t() : weight.t());
  std::vector<at::Tensor> blocks;
  for (int64_t i = 0; i < this->blocks(); ++i) {
    const at::Tensor block = transposed.narrow(1, i * kBlock, Columns(i));
    if (packed_for_amx_) {
      for (const at::Tensor& panel : block.split(kPanel, 1)) {
        blocks.push_back(products == Products::kInt8 ? InRegistersOfFours(panel)
                                                     : InRegisters(panel));
      }
    } else if (products == Products::kInt8) {
      blocks.push_back(InFours(block));
    } else if (products == Products::kBf16) {
      blocks.push_back(InPairs(block));
    } else {
      blocks.push_back(block.flatten());
    }
  }
  blocks_ = at::cat(blocks);
  flips_sign_ = products == Products::kInt8 && !packed_for_amx_ && simd::HasVnni();
  if (flips_sign_) blocks_.bitwise_xor_(-128);
}

at::Tensor PackedMatrix::Quantised(const at::Tensor& weight, const at::Tensor& input_scales) {
  at::Tensor scaled = weight.to(at::kFloat);
  if (input_scales.defined()) {
    scaled = scaled * input_scales;
    inverse_input_scales_ = at::zeros({depth_}, at::kFloat);
    inverse_input_scales_.narrow(0, 0, in_).copy_(input_scales.reciprocal());
  }
  const at::Tensor largest = scaled.abs().amax(1);
  // A column of zeros has any scale.
  const at::Tensor scales = at::where(largest > 0, largest / kMostInt8, 1.0f);
  scales_ = at::zeros_like(bias_);
  scales_.narrow(0, 0, out_).copy_(scales);
  return (scaled / scales.unsqueeze(1)).round().clamp(-kMostInt8, kMostInt8);
}

int64_t PackedMatrix::Columns(int64_t block) const {
  return std::min(kBlock, bias_.size(0) - block * kBlock);
}

const void* PackedMatrix::Block(int64_t block) const {
  const int64_t element = block * kBlock * depth_;
  return static_cast<const char*>(blocks_.const_data_ptr()) + element * blocks_.element_size();
}

int64_t PackedMatrix::bytes() const {
  int64_t bytes = static_cast<int64_t>(blocks_.nbytes() + bias_.nbytes());
  for (const at::Tensor& scales : {scales_, inverse_input_scales_}) {
    if (scales.defined()) bytes += static_cast<int64_t>(scales.nbytes());
  }
  return bytes;
}

}  // namespace fovea::kernels
