// Token sets that attend each other, as a job of cuda_online.h: dense_attention and
// static_key_attention. cuda_nearest.h has a job that selects among them.
#pragma once
#include <cstdint>
#include <type_traits>

#include "kernels/attention/shared/cuda_tiles.h"
#include "kernels/attention/shared/cuda_tokens.h"

namespace fovea::kernels::cuda {

template <class T, class WeightsType>
struct TokenSetsJob {
  using Weights = WeightsType;
  static constexpr int kTaps = 1;
  static constexpr bool kResumes = false, kSuspends = false;

  JobSize size;
  typename Weights::Parameters weights;
  Tokens<const T> query, key, value;
  Tokens<T> output;
  LogitBias bias;
  int64_t batch, heads;
  float scale;

  struct Sequence {
    struct Row {
      const float* bias;
    };
    struct Column {
      int64_t bias;
    };

    int first, queries, keys;
    const T *query, *key, *value;
    T* output;
    const float* bias;
    int64_t query_token, key_token, value_token, output_token, bias_query, bias_key;
    float scale;

    FOVEA_HOST_DEVICE static int QueryRows(int rows) { return rows; }
    __device__ static int LeftRow(int, int i, int) { return i; }
    __device__ const T* QueryRow(int i, int) const {
      return first + i < queries ? query + (first + i) * query_token : nullptr;
    }
    __device__ const T* Key(int, int j) const { return key + j * key_token; }
    __device__ const T* Value(int j) const { return value + j * value_token; }
    __device__ T* Output(int i) const { return output + i * output_token; }
    __device__ Row RowOf(int i) const {
      return {bias == nullptr ? nullptr : bias + i * bias_query};
    }
    __device__ Column ColumnOf(int j) const { return {j * bias_key}; }
    __device__ float Logit(float product, Row row, Column column) const {
      return row.bias == nullptr ? product * scale : fmaf(product, scale, row.bias[column.bias]);
    }
  };

  int64_t Blocks(int rows) const { return batch * heads * ((size.queries + rows - 1) / rows); }

  __device__ Sequence At(int64_t block, int rows) const {
    const int64_t per_head = (size.queries + rows - 1) / rows;
    const int64_t b = block / per_head / heads;
    const int64_t h = block / per_head % heads;
    return {static_cast<int>(block % per_head) * rows,
            size.queries,
            size.keys,
            query.Of(b, h),
            key.Of(b, h),
            value.Of(b, h),
            output.Of(b, h),
            bias.Row(b, h, 0),
            query.token,
            key.token,
            value.token,
            output.token,
            bias.query,
            bias.key,
            scale};
  }
};

// All but the weights' parameters of a job, from an operator's inputs: query, key and value [B, H,
// N, head_dim], scale and bias.
template <class Job, class Inputs>
void SetTokens(const Inputs& in, const at::Tensor& output, Job& job) {
  using T = std::remove_pointer_t<decltype(job.output.data)>;
  job.size = SizeOf(in.query.size(3), in.query.size(2), in.key.size(2),
                    AreVectorAligned({in.query, in.key, in.value, output}));
  job.query = TokensOf<T>(in.query);
  job.key = TokensOf<T>(in.key);
  job.value = TokensOf<T>(in.value);
  job.output = WritableTokensOf<T>(output);
  job.bias = LogitBiasOf(in.bias);
  job.batch = in.query.size(0);
  job.heads = in.query.size(1);
  job.scale = static_cast<float>(in.scale);
}

}  // namespace fovea::kernels::cuda
