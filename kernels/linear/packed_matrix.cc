#include "kernels/linear/packed_matrix.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kColumnsStep = 16;  // of a block's width
constexpr int64_t kDepthStep = 32;    // bf16 in a row of AMX's tiles

int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// [depth, columns] to pairs of rows, [depth / 2, columns, 2].
at::Tensor InPairs(const at::Tensor& block) {
  return block.unflatten(0, {-1, 2}).transpose(1, 2).flatten();
}

// The same to AMX's registers, [depth / 32, columns / 16, 16, 16, 2]; fp32, which becomes parts,
// with its rows whole, [depth / 32, columns / 16, 32, 16].
at::Tensor InRegisters(const at::Tensor& block) {
  const at::Tensor registers =
      block.unflatten(1, {-1, kColumnsStep}).unflatten(0, {-1, kDepthStep / 2, 2});
  const bool pairs = block.scalar_type() == at::kBFloat16;
  return registers.permute(pairs ? at::IntArrayRef{0, 3, 1, 4, 2} : at::IntArrayRef{0, 3, 1, 2, 4})
      .flatten();
}

}  // namespace

bool HasProducts(Products products) {
  switch (products) {
    case Products::kFp32:
      return simd::HasFp32Gemm();
    case Products::kBf16:
      return simd::HasBf16Gemm();
    case Products::kBf16Parts:
      return AreTiled(products);
  }
  return false;
}

bool AreTiled(Products products) {
  return products != Products::kFp32 && simd::HasAmx() && simd::HasBf16Gemm();
}

PackedMatrix::PackedMatrix(const at::Tensor& weight, const at::Tensor& bias, Products products,
                           bool tiled)
    : products_(products), tiled_(tiled), in_(weight.size(1)), out_(weight.size(0)) {
  depth_ = products == Products::kFp32 ? in_ : RoundUp(in_, kDepthStep);
  const int64_t wide = RoundUp(out_, kColumnsStep);
  bias_ = at::zeros({wide}, at::kFloat);
  if (bias.defined()) bias_.narrow(0, 0, out_).copy_(bias);
  at::Tensor transposed =
      at::zeros({depth_, wide}, products == Products::kBf16 ? at::kBFloat16 : at::kFloat);
  transposed.narrow(0, 0, in_).narrow(1, 0, out_).copy_(weight.t());
  std::vector<at::Tensor> blocks;
  for (int64_t i = 0; i < this->blocks(); ++i) {
    const at::Tensor block = transposed.narrow(1, i * kBlock, Columns(i));
    if (tiled_) {
      blocks.push_back(InRegisters(block));
    } else if (products == Products::kBf16) {
      blocks.push_back(InPairs(block));
    } else {
      blocks.push_back(block.flatten());
    }
  }
  blocks_ = at::cat(blocks);
}

int64_t PackedMatrix::Columns(int64_t block) const {
  return std::min(kBlock, bias_.size(0) - block * kBlock);
}

const void* PackedMatrix::Block(int64_t block) const {
  const int64_t element = block * kBlock * depth_;
  return static_cast<const char*>(blocks_.const_data_ptr()) + element * blocks_.element_size();
}

int64_t PackedMatrix::bytes() const {
  return static_cast<int64_t>(blocks_.nbytes() + bias_.nbytes());
}

}  // namespace fovea::kernels
