// What a chain (linear_chain.h) does to rows besides multiplying them, as raw memory; compiled once
// per instruction set.
#pragma once
#include <cstdint>

namespace fovea::kernels::rows {

// Rows of fp32 or bf16, `stride` elements apart. Where `plane` is not 0, each is written as the
// three bf16 rows that Split makes, `plane` elements apart.
struct Rows {
  void* data;
  int64_t stride;
  int64_t plane = 0;
};
struct ConstRows {
  const void* data = nullptr;
  int64_t stride = 0;
};

enum class Activation { kNone, kGelu, kRelu, kStarRelu };

// (row - mean) / sqrt(variance + epsilon) * weight + bias.
struct NormTerms {
  const float* weight;
  const float* bias;  // null: none
  float epsilon;
};

// From a block of products, at most 64 columns of them, to columns of output rows:
// activation(product + bias) + residual_scale * residual.
struct BlockTerms {
  const float* products;
  int64_t products_stride;
  int64_t count;
  int64_t columns;
  const float* bias;  // readable up to the next whole vector
  Activation activation = Activation::kNone;
  float star_scale = 1, star_bias = 0;    // of kStarRelu: star_scale * relu(x)^2 + star_bias
  ConstRows residual;                     // null: none
  const float* residual_scale = nullptr;  // per column; null: 1
};

// Of rows [count, columns], in bf16 or in fp32 on both sides.
void Normalise(bool bf16, const ConstRows& from, int64_t count, int64_t columns,
               const NormTerms& terms, const Rows& to);
// Of terms.count rows in bf16 or fp32, as the residual is.
void Finish(bool bf16, const BlockTerms& terms, const Rows& to);

// fp32 rows as three bf16 rows each, `plane` elements apart: largest part first.
void Split(const ConstRows& from, int64_t count, int64_t columns, uint16_t* to, int64_t stride,
           int64_t plane);

}  // namespace fovea::kernels::rows
