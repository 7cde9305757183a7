// The weight of a linear layer as the tiles of a chain read it (linear_chain.h): blocks of columns,
// one after the other.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace fovea::kernels {

// How rows are multiplied by a matrix.
enum class Products {
  kFp32,       // fp32 by fp32
  kBf16,       // bf16 by bf16, summed in fp32
  kBf16Parts,  // fp32 as the sum of three bf16, six products of which are taken: as exact as fp32
};

// Whether such products run on this machine at all (simd/gemm.h).
bool HasProducts(Products products);

// Whether matrices of such products are packed for simd/amx.h here; otherwise oneDNN multiplies
// (simd/gemm.h).
bool AreTiled(Products products);

// Immutable and thread-safe.
class PackedMatrix {
 public:
  // Output channels in a block; the last one has what is left, rounded up to 16.
  static constexpr int64_t kBlock = 64;

  // weight [out, in] and bias [out] or undefined, of any floating type.
  PackedMatrix(const at::Tensor& weight, const at::Tensor& bias, Products products)
      : PackedMatrix(weight, bias, products, AreTiled(products)) {}
  // The same with `tiled` forced, for tests: false for oneDNN where AMX is.
  PackedMatrix(const at::Tensor& weight, const at::Tensor& bias, Products products, bool tiled);

  Products products() const { return products_; }
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  // `in` as the tiles have it: what is added is zero.
  int64_t depth() const { return depth_; }
  int64_t blocks() const { return (out_ + kBlock - 1) / kBlock; }
  int64_t Columns(int64_t block) const;
  bool tiled() const { return tiled_; }
  // fp32 or, with kBf16, bf16. For oneDNN [depth, columns], bf16 with pairs of rows interleaved,
  // [depth / 2, columns, 2]; tiled(), as registers of AMX, [depth / 32, columns / 16, 16, 16, 2],
  // or [depth / 32, columns / 16, 32, 16] of fp32. The parts of kBf16Parts are made where they are
  // needed: three of two bytes are more to fetch than four bytes.
  const void* Block(int64_t block) const;
  const float* bias() const { return bias_.const_data_ptr<float>(); }  // zero without one
  int64_t bytes() const;

 private:
  Products products_;
  bool tiled_;
  int64_t in_, out_, depth_;
  at::Tensor blocks_;
  at::Tensor bias_;  // fp32 [out rounded up to 16]
};

}  // namespace fovea::kernels
