// Key-only attention on CUDA: one thread block's work in each of its three launches. Device code
// only; cuda.cu launches it, and tests/kernels/cuda_on_host runs it where there is no GPU.
//
// ChunkBlock sums up 256 tokens of one head with an online softmax, reading each key from memory
// once; its second look finds the tile of 64 in the cache. MergeBlock makes one context of a head's
// chunks. ProductBlock multiplies. Both read and write kVector elements at once: 16 bytes, which
// divide head_dim and all strides and addresses, or one element. Chunks are of a fixed size, so
// that results do not depend on the device; a short sequence of few heads fills few
// multiprocessors.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/warp.h"

namespace fovea::kernels::key_only {

inline constexpr int kThreads = 128;
inline constexpr int kTile = 64;            // tokens between two looks at the softmax's maximum
inline constexpr int kTokensOfBlock = 256;  // summed up by one ChunkBlock
inline constexpr int kRowsOfBlock = 64;     // multiplied by one ProductBlock
inline constexpr int kLogitsOfLane = kTile / 32;

// A partial sum is `dim` + 2 floats: sum of weight * key over a chunk's tokens, with weight =
// e^(logit - largest); the largest finite logit, -inf if there is none; the sum of the weights.
template <class T>
struct CudaContextJob {
  const T* key;  // [batch, heads, tokens, dim]; strides in elements
  int64_t key_batch, key_head, key_token;
  const float* saliency;  // [heads, dim]
  int64_t heads, tokens, chunks;
  int dim;
  float scale;
  float* partials;  // [batch, chunks, heads, dim + 2]
  float* context;   // [batch, heads, dim]
};

template <class T>
struct CudaProductJob {
  const T* value;  // [batch, heads, tokens, dim]; strides in elements
  int64_t value_batch, value_head, value_token;
  T* output;  // likewise; may be `value`
  int64_t output_batch, output_head, output_token;
  const float* context;         // [batch, heads, dim]
  int64_t heads, tokens, rows;  // rows: batch * tokens * heads
  int dim;
};

// Shared memory of a ChunkBlock: a tile's weights, then the sums of groups of tokens.
template <int kVector>
int64_t SharedFloats(int64_t dim) {
  return kTile + (dim < kThreads * kVector ? kThreads * kVector : dim);
}

// One of batch * chunks * heads blocks, heads innermost.
template <class T, int kVector>
class ChunkBlock {
 public:
  __device__ ChunkBlock(const CudaContextJob<T>& job, float* shared)
      : job_(job), weights_(shared), sums_(shared + kTile) {
    head_ = blockIdx.x % job.heads;
    const int64_t chunk = blockIdx.x / job.heads % job.chunks;
    const int64_t batch = blockIdx.x / job.heads / job.chunks;
    const int64_t first = chunk * kTokensOfBlock;
    const int64_t left = job.tokens - first;
    tokens_ = left < kTokensOfBlock ? static_cast<int>(left) : kTokensOfBlock;
    key_ = job.key + batch * job.key_batch + head_ * job.key_head + first * job.key_token;
    vectors_ = job.dim / kVector;
    // Heads narrower than the block leave threads over: those take tokens of their own.
    groups_ = vectors_ < kThreads ? kThreads / vectors_ : 1;
    while (lanes_ < 32 && lanes_ < vectors_) lanes_ *= 2;
  }

  __device__ void Run() {
    for (int i = threadIdx.x; i < groups_ * job_.dim; i += kThreads) sums_[i] = 0.0f;
    for (int first = 0; first < tokens_; first += kTile) {
      const int count = tokens_ - first < kTile ? tokens_ - first : kTile;
      const T* key = key_ + first * job_.key_token;
      Logits(key, count);
      AddWeighted(key, count, Weights());
    }
    Store();
  }

 private:
  __device__ int Lane() const { return threadIdx.x % 32; }

  // Scaled logits of a tile to where its weights will be, -inf past its tokens. lanes_ lanes to a
  // token.
  __device__ void Logits(const T* key, int count) {
    const float* saliency = job_.saliency + head_ * job_.dim;
    __syncthreads();
    const int lane = Lane() % lanes_;
#pragma unroll 4
    for (int j = threadIdx.x / lanes_; j < kTile; j += kThreads / lanes_) {
      float sum = 0.0f;
      if (j < count) {
        for (int v = lane; v < vectors_; v += lanes_) {
          const auto x = cuda::ElementsAt<kVector>(key + j * job_.key_token + v * kVector);
          const auto s = cuda::ElementsAt<kVector>(saliency + v * kVector);
#pragma unroll
          for (int i = 0; i < kVector; ++i) sum = fmaf(static_cast<float>(x.at[i]), s.at[i], sum);
        }
      }
      for (int offset = lanes_ / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(cuda::kAllLanes, sum, offset);
      }
      if (lane == 0) weights_[j] = j < count ? sum * job_.scale : -INFINITY;
    }
    __syncthreads();
  }

  // Turns the tile's logits into weights; returns what earlier sums are to be multiplied by. Every
  // warp computes the same, the first one stores.
  __device__ float Weights() {
    float logit[kLogitsOfLane];
    float largest = largest_;
#pragma unroll
    for (int i = 0; i < kLogitsOfLane; ++i) {
      logit[i] = weights_[Lane() + 32 * i];
      if (logit[i] < INFINITY) largest = fmaxf(largest, logit[i]);
    }
    largest = cuda::WarpMax(largest);
    const float factor = largest == largest_ ? 1.0f : expf(largest_ - largest);
    largest_ = largest;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kLogitsOfLane; ++i) {
      const float weight = Weight(logit[i]);
      sum += weight;
      if (threadIdx.x < 32) weights_[Lane() + 32 * i] = weight;
    }
    sum_ = sum_ * factor + cuda::WarpSum(sum);
    __syncthreads();
    return factor;
  }

  // Zero for -inf, NaN for NaN and +inf: softmax's.
  __device__ float Weight(float logit) const {
    if (!(logit < INFINITY)) return NAN;
    return logit == -INFINITY ? 0.0f : expf(logit - largest_);
  }

  // A thread has the same channels, and the same group of tokens, in every tile.
  __device__ void AddWeighted(const T* key, int count, float factor) {
    for (int i = threadIdx.x; i < groups_ * vectors_; i += kThreads) {
      const int channel = i % vectors_ * kVector;
      auto& place = cuda::ElementsAt<kVector>(sums_ + i * kVector);
      auto sum = place;
#pragma unroll
      for (float& x : sum.at) x *= factor;
      for (int j = i / vectors_; j < count; j += groups_) {
        const auto x = cuda::ElementsAt<kVector>(key + j * job_.key_token + channel);
#pragma unroll
        for (int c = 0; c < kVector; ++c) {
          sum.at[c] = fmaf(weights_[j], static_cast<float>(x.at[c]), sum.at[c]);
        }
      }
      place = sum;
    }
  }

  __device__ void Store() {
    float* partial = job_.partials + static_cast<int64_t>(blockIdx.x) * (job_.dim + 2);
    __syncthreads();
    for (int c = threadIdx.x; c < job_.dim; c += kThreads) {
      float sum = 0.0f;
      for (int g = 0; g < groups_; ++g) sum += sums_[g * job_.dim + c];
      partial[c] = sum;
    }
    if (threadIdx.x == 0) {
      partial[job_.dim] = largest_;
      partial[job_.dim + 1] = sum_;
    }
  }

  const CudaContextJob<T>& job_;
  float* const weights_;
  float* const sums_;
  const T* key_;
  int64_t head_;
  int tokens_, groups_, vectors_;
  int lanes_ = 1;
  float largest_ = -INFINITY;
  float sum_ = 0.0f;
};

// One of batch * heads blocks. NaN stays NaN in every path.
template <class T>
__device__ void MergeBlock(const CudaContextJob<T>& job) {
  const int64_t batch = blockIdx.x / job.heads;
  const int64_t head = blockIdx.x % job.heads;
  const int64_t stride = job.heads * (job.dim + 2);
  const float* partials = job.partials + batch * job.chunks * stride + head * (job.dim + 2);
  float largest = -INFINITY;
  for (int64_t i = 0; i < job.chunks; ++i) {
    largest = fmaxf(largest, partials[i * stride + job.dim]);
  }
  for (int c = threadIdx.x; c < job.dim; c += kThreads) {
    float weights = 0.0f;
    float sum = 0.0f;
    for (int64_t i = 0; i < job.chunks; ++i) {
      const float* partial = partials + i * stride;
      const float factor = partial[job.dim] == largest ? 1.0f : expf(partial[job.dim] - largest);
      weights += partial[job.dim + 1] * factor;
      sum += partial[c] * factor;
    }
    job.context[blockIdx.x * static_cast<int64_t>(job.dim) + c] = sum / weights;
  }
}

// kRowsOfBlock rows; a row is a token of one head.
template <class T, int kVector>
__device__ void ProductBlock(const CudaProductJob<T>& job) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock;
  const int64_t left = job.rows - first;
  const int rows = left < kRowsOfBlock ? static_cast<int>(left) : kRowsOfBlock;
  const int vectors = job.dim / kVector;
  // Divided once in 64 bits; what follows is small.
  const int heads = static_cast<int>(job.heads);
  const int first_head = static_cast<int>(first % job.heads);
  const int64_t first_token = first / job.heads % job.tokens;
  const int64_t first_batch = first / job.heads / job.tokens;
  for (int i = threadIdx.x; i < rows * vectors; i += kThreads) {
    const int row = first_head + i / vectors;
    const int c = i % vectors * kVector;
    const int head = row % heads;
    int64_t token = first_token + row / heads;
    int64_t batch = first_batch;
    for (; token >= job.tokens; token -= job.tokens) ++batch;
    const auto value = cuda::ElementsAt<kVector>(
        job.value + batch * job.value_batch + head * job.value_head + token * job.value_token + c);
    const auto context =
        cuda::ElementsAt<kVector>(job.context + (batch * job.heads + head) * job.dim + c);
    cuda::Elements<T, kVector> out;
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      out.at[j] = T(static_cast<float>(value.at[j]) * context.at[j]);
    }
    cuda::ElementsAt<kVector>(job.output + batch * job.output_batch + head * job.output_head +
                              token * job.output_token + c) = out;
  }
}

}  // namespace fovea::kernels::key_only
