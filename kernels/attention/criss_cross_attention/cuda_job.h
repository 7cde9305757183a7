// Criss-cross attention as two jobs of shared/cuda_online.h: one softmax in two launches.
//
// The first attends columns, without the position itself, and leaves each position's softmax
// unfinished in global memory; the second takes it up and goes on along the row. Both are products
// of whole tiles, which the keys of a position, of one row and one column, would not be; the price
// is to write and read head_dim + 2 floats for each position.
#pragma once
#include <ATen/Functions.h>

#include <cstdint>
#include <vector>

#include "kernels/attention/criss_cross_attention/implementations.h"
#include "kernels/attention/shared/cuda_online.h"
#include "kernels/attention/shared/cuda_tokens.h"

namespace fovea::kernels {

enum class Lines { kColumns, kRows };

template <class T, Lines kLines>
struct CrissCrossJob {
  using Weights = cuda::OnlineSoftmax;
  static constexpr int kTaps = 1;
  static constexpr bool kSuspends = kLines == Lines::kColumns;
  static constexpr bool kResumes = kLines == Lines::kRows;

  cuda::JobSize size;
  cuda::OnlineSoftmax::Parameters weights;
  cuda::Map<const T> query, key, value;
  cuda::Map<T> output;
  float* saved;  // [batch, heads, height, width, head_dim + 2]
  int64_t batch, heads;
  int height, width;
  float scale;

  struct Sequence {
    using Row = int;
    using Column = int;

    int first, queries, keys;
    const T *query, *key, *value;
    T* output;
    int64_t query_token, key_token, value_token, output_token;
    int64_t saved, saved_token;  // positions before the line's first, and from one to the next
    float scale;

    FOVEA_HOST_DEVICE static int QueryRows(int rows) { return rows; }
    __device__ static int LeftRow(int, int i, int) { return i; }
    __device__ const T* QueryRow(int i, int) const {
      return first + i < queries ? query + (first + i) * query_token : nullptr;
    }
    __device__ const T* Key(int, int j) const { return key + j * key_token; }
    __device__ const T* Value(int j) const { return value + j * value_token; }
    __device__ T* Output(int i) const { return output + i * output_token; }
    __device__ Row RowOf(int i) const { return i; }
    __device__ Column ColumnOf(int j) const { return j; }
    __device__ float Logit(float product, Row i, Column j) const {
      return kLines == Lines::kColumns && i == j ? -INFINITY : product * scale;
    }
  };

  int64_t Blocks(int rows) const {
    return batch * heads * (kLines == Lines::kRows ? height : width) *
           ((size.queries + rows - 1) / rows);
  }

  __device__ Sequence At(int64_t block, int rows) const {
    const int row_blocks = (size.queries + rows - 1) / rows;
    const int first = static_cast<int>(block % row_blocks) * rows;
    block /= row_blocks;
    const int64_t h = block % heads;
    block /= heads;
    const int lines = kLines == Lines::kRows ? height : width;
    const int64_t line = block % lines;
    const int64_t b = block / lines;
    const auto begin = [&](const auto& map) {
      return map.Of(b, h) + line * (kLines == Lines::kRows ? map.row : map.column);
    };
    const auto token = [](const auto& map) {
      return kLines == Lines::kRows ? map.column : map.row;
    };
    return {first,
            size.queries,
            size.keys,
            begin(query),
            begin(key),
            begin(value),
            begin(output),
            token(query),
            token(key),
            token(value),
            token(output),
            (b * heads + h) * height * width + line * (kLines == Lines::kRows ? width : 1),
            kLines == Lines::kRows ? 1 : width,
            scale};
  }

  __device__ cuda::SavedState StateOf(const Sequence& sequence, int i) const {
    float* const state =
        saved + (sequence.saved + i * sequence.saved_token) * (int64_t{size.dim} + 2);
    return {state, state + size.dim};
  }
};

// `saved`: fp32 on query's device, as CrissCrossJob has it.
template <class T, Lines kLines>
CrissCrossJob<T, kLines> MakeJob(const CrissCrossAttentionInputs& in, const at::Tensor& saved,
                                 const at::Tensor& output) {
  CrissCrossJob<T, kLines> job{};
  const int64_t length = in.query.size(kLines == Lines::kRows ? 3 : 2);
  job.size = cuda::SizeOf(in.query.size(4), length, length,
                          cuda::AreVectorAligned({in.query, in.key, in.value, output}));
  job.query = cuda::MapOf<T>(in.query);
  job.key = cuda::MapOf<T>(in.key);
  job.value = cuda::MapOf<T>(in.value);
  job.output = cuda::WritableMapOf<T>(output);
  job.saved = cuda::Writable<float>(saved);
  job.batch = in.query.size(0);
  job.heads = in.query.size(1);
  job.height = static_cast<int>(in.query.size(2));
  job.width = static_cast<int>(in.query.size(3));
  job.scale = static_cast<float>(in.scale);
  return job;
}

inline at::Tensor EmptySavedStates(const at::Tensor& query) {
  std::vector<int64_t> sizes = query.sizes().vec();
  sizes.back() += 2;
  return at::empty(sizes, query.options().dtype(at::kFloat));
}

}  // namespace fovea::kernels
