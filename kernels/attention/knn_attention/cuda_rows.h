// k-NN attention on CUDA: one thread block's work. Device code only; cuda.cu launches it, and
// tests/kernels/cuda_on_host runs it where there is no GPU.
//
// A thread block takes sixteen rows of one head, a warp four of them, and walks the keys in tiles
// of 64. It walks them several times: for the moments, once per round of counting (select.h), and
// for the weights and their product with the values. Where sixteen rows of logits fit in shared
// memory, they are computed once and stay there; longer rows compute each tile again on every walk,
// which needs no more memory however long they are. No logit ever reaches global memory.
//
// The rows of a block search in step, until the last of them is done.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/attention/knn_attention/select.h"
#include "kernels/cuda/tile_product.h"
#include "kernels/cuda/warp.h"

namespace fovea::kernels::knn {

using cuda::kAllLanes;
using cuda::kRowPad;

inline constexpr int kRows = 16;
inline constexpr int kKeys = 64;  // in a tile
inline constexpr int kThreads = 128;
inline constexpr int kRowsPerWarp = kRows / (kThreads / 32);
inline constexpr int kLogitPad = 8;  // floats between rows of logits, as kRowPad

template <class T>
struct CudaJob {
  const T* query;
  const T* key;
  const T* value;
  T* output;
  const float* bias;  // null: none
  int64_t query_batch, query_head, query_token;
  int64_t key_batch, key_head, key_token;
  int64_t value_batch, value_head, value_token;
  int64_t output_batch, output_head, output_token;
  int64_t bias_batch, bias_head, bias_query, bias_key;
  int64_t heads, queries, keys, topk;
  int dim, padded_dim;  // head_dim, and rounded up to whole fragments
  float scale;
  bool resident;  // all logits of a block are kept
};

// A block's shared memory, in bytes from its beginning.
struct SharedLayout {
  int query, tile, weights, output, logits, search, end;
};

template <class T>
FOVEA_HOST_DEVICE SharedLayout LayoutOf(int padded_dim, int64_t keys, bool resident) {
  const int row = padded_dim + kRowPad<T>;
  const int64_t logit_columns = resident ? (keys + kKeys - 1) / kKeys * kKeys : kKeys;
  SharedLayout at{};
  at.query = 0;
  at.tile = at.query + kRows * row * static_cast<int>(sizeof(T));
  at.weights = at.tile + kKeys * row * static_cast<int>(sizeof(T));
  at.output = at.weights + kRows * (kKeys + kRowPad<T>)*static_cast<int>(sizeof(T));
  at.search = at.output + kRows * (padded_dim + kLogitPad) * 4;
  at.logits = at.search + kRows * static_cast<int>(sizeof(ThresholdSearch) + 15) / 16 * 16;
  at.logits = (at.logits + 31) / 32 * 32;
  at.end = at.logits + static_cast<int>(kRows * (logit_columns + kLogitPad) * 4);
  return at;
}

// One block's work.
template <class T>
class RowBlock {
 public:
  __device__ RowBlock(const CudaJob<T>& job, unsigned char* shared)
      : job_(job), layout_(LayoutOf<T>(job.padded_dim, job.keys, job.resident)), shared_(shared) {
    const int64_t blocks = (job.queries + kRows - 1) / kRows;
    const int64_t head = blockIdx.x / blocks;
    batch_ = head / job.heads;
    head_ = head % job.heads;
    first_ = blockIdx.x % blocks * kRows;
    const int64_t left = job.queries - first_;
    rows_ = left < kRows ? static_cast<int>(left) : kRows;
    tiles_ = static_cast<int>((job.keys + kKeys - 1) / kKeys);
    logit_row_ = (job.resident ? tiles_ * kKeys : kKeys) + kLogitPad;
  }

  __device__ void Run() {
    const T* query = job_.query + batch_ * job_.query_batch + head_ * job_.query_head +
                     first_ * job_.query_token;
    cuda::LoadTile(query, job_.query_token, rows_, job_.dim, kRows, job_.padded_dim, Query(),
                   TileRow());
    if (job_.resident) {
      for (int tile = 0; tile < tiles_; ++tile) ComputeLogits(tile);
    }
    Measure();
    SelectThresholds();
    WeightedValues();
    StoreOutput();
  }

 private:
  __device__ T* Query() const { return reinterpret_cast<T*>(shared_ + layout_.query); }
  __device__ T* Tile() const { return reinterpret_cast<T*>(shared_ + layout_.tile); }
  __device__ T* Weights() const { return reinterpret_cast<T*>(shared_ + layout_.weights); }
  __device__ float* Output() const { return reinterpret_cast<float*>(shared_ + layout_.output); }
  __device__ ThresholdSearch& SearchOf(int row) const {
    return reinterpret_cast<ThresholdSearch*>(shared_ + layout_.search)[row];
  }
  // Rows of logits of a tile, logit_row_ apart.
  __device__ float* Logits(int tile) const {
    return reinterpret_cast<float*>(shared_ + layout_.logits) + (job_.resident ? tile * kKeys : 0);
  }
  __device__ int TileRow() const { return job_.padded_dim + kRowPad<T>; }
  __device__ int KeysIn(int tile) const {
    const int64_t left = job_.keys - static_cast<int64_t>(tile) * kKeys;
    return left < kKeys ? static_cast<int>(left) : kKeys;
  }
  __device__ int Lane() const { return threadIdx.x % 32; }
  __device__ int FirstRowOfWarp() const { return threadIdx.x / 32 * kRowsPerWarp; }

  // Scaled and biased logits of a tile into shared memory. Synchronises before and after.
  __device__ void ComputeLogits(int tile) {
    const int64_t first_key = static_cast<int64_t>(tile) * kKeys;
    const int keys = KeysIn(tile);
    const T* key =
        job_.key + batch_ * job_.key_batch + head_ * job_.key_head + first_key * job_.key_token;
    __syncthreads();
    cuda::LoadTile(key, job_.key_token, keys, job_.dim, kKeys, job_.padded_dim, Tile(), TileRow());
    __syncthreads();
    cuda::MultiplyTiles<T, /*kTransposedB=*/true, /*kAccumulate=*/false>(
        Query(), TileRow(), Tile(), TileRow(), job_.padded_dim, kKeys, Logits(tile), logit_row_);
    __syncthreads();
    const float* bias = job_.bias == nullptr
                            ? nullptr
                            : job_.bias + batch_ * job_.bias_batch + head_ * job_.bias_head +
                                  first_ * job_.bias_query + first_key * job_.bias_key;
    for (int i = threadIdx.x; i < kRows * kKeys; i += kThreads) {
      const int r = i / kKeys;
      const int j = i % kKeys;
      float* logit = Logits(tile) + r * logit_row_ + j;
      if (bias != nullptr && r < rows_ && j < keys) {
        *logit = fmaf(*logit, job_.scale, bias[r * job_.bias_query + j * job_.bias_key]);
      } else {
        *logit *= job_.scale;
      }
    }
    __syncthreads();
  }

  // Calls visit(i, logit) for each of the warp's rows i and the keys that are this lane's.
  template <class Visit>
  __device__ void ForEachLogit(const Visit& visit) {
    for (int tile = 0; tile < tiles_; ++tile) {
      if (!job_.resident) ComputeLogits(tile);
      const int keys = KeysIn(tile);
#pragma unroll
      for (int i = 0; i < kRowsPerWarp; ++i) {
        const float* logits = Logits(tile) + (FirstRowOfWarp() + i) * logit_row_;
        for (int j = Lane(); j < keys; j += 32) visit(i, logits[j]);
      }
    }
  }

  __device__ void Measure() {
    int count[kRowsPerWarp] = {};
    bool broken[kRowsPerWarp] = {};
    float sum[kRowsPerWarp] = {}, squares[kRowsPerWarp] = {};
    float smallest[kRowsPerWarp], largest[kRowsPerWarp];
    for (int i = 0; i < kRowsPerWarp; ++i) {
      smallest[i] = INFINITY;
      largest[i] = -INFINITY;
    }
    ForEachLogit([&](int i, float s) {
      if (fabsf(s) < INFINITY) {
        ++count[i];
        sum[i] += s;
        squares[i] = fmaf(s, s, squares[i]);
        smallest[i] = fminf(smallest[i], s);
        largest[i] = fmaxf(largest[i], s);
      } else {
        broken[i] |= !(s < 0.0f);  // NaN or +inf
      }
    });
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const Moments moments = {cuda::WarpSum(count[i]), cuda::WarpSum(sum[i]),
                               cuda::WarpSum(squares[i]), cuda::WarpMin(smallest[i]),
                               cuda::WarpMax(largest[i])};
      largest_[i] = moments.largest;
      broken_[i] = __any_sync(kAllLanes, broken[i]);
      if (Lane() == 0) SearchOf(FirstRowOfWarp() + i) = ThresholdSearch(job_.topk, moments);
    }
    __syncwarp();
  }

  __device__ void SelectThresholds() {
    while (true) {
      bool searching = false;
      float guess[kRowsPerWarp];
      Neighbours found[kRowsPerWarp];
#pragma unroll
      for (int i = 0; i < kRowsPerWarp; ++i) {
        const ThresholdSearch& search = SearchOf(FirstRowOfWarp() + i);
        searching |= !search.Done();
        guess[i] = search.Guess();
        found[i] = {0, INFINITY, -INFINITY};
      }
      if (__syncthreads_or(searching) == 0) return;
      CountAtLeast(guess, found);
#pragma unroll
      for (int i = 0; i < kRowsPerWarp; ++i) {
        const Neighbours all = {cuda::WarpSum(found[i].count), cuda::WarpMin(found[i].above),
                                cuda::WarpMax(found[i].below)};
        ThresholdSearch& search = SearchOf(FirstRowOfWarp() + i);
        if (Lane() == 0 && !search.Done()) search.Observe(all);
      }
      __syncwarp();
    }
  }

  __device__ void CountAtLeast(const float (&t)[kRowsPerWarp], Neighbours (&found)[kRowsPerWarp]) {
    ForEachLogit([&](int i, float s) {
      if (s >= t[i]) {
        ++found[i].count;
        found[i].above = fminf(found[i].above, s);
      } else {
        found[i].below = fmaxf(found[i].below, s);
      }
    });
  }

  // A tile's weights into shared memory, zero where not selected and past the keys. `equal_before`:
  // logits equal to the threshold in tiles before; counted on.
  __device__ void SoftmaxAbove(int tile, int64_t (&equal_before)[kRowsPerWarp],
                               float (&sum)[kRowsPerWarp]) {
    const int keys = KeysIn(tile);
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int row = FirstRowOfWarp() + i;
      const ThresholdSearch& search = SearchOf(row);
      const float threshold = search.Threshold();
      const float* logits = Logits(tile) + row * logit_row_;
      for (int j = Lane(); j < kKeys; j += 32) {
        const float s = j < keys ? logits[j] : -INFINITY;
        const unsigned equal = __ballot_sync(kAllLanes, s == threshold && j < keys);
        const int64_t rank = equal_before[i] + __popc(equal & ((1u << Lane()) - 1));
        const bool selected = j < keys && !broken_[i] && Takes(s, threshold, rank, search.Ties());
        const float weight = selected ? Weight(s, largest_[i]) : 0.0f;
        sum[i] += weight;
        Weights()[row * (kKeys + kRowPad<T>)+j] = T(weight);
        equal_before[i] += __popc(equal);
      }
    }
  }

  __device__ void WeightedValues() {
    const int output_row = job_.padded_dim + kLogitPad;
    for (int i = threadIdx.x; i < kRows * output_row; i += kThreads) Output()[i] = 0.0f;
    int64_t equal_before[kRowsPerWarp] = {};
    float sum[kRowsPerWarp] = {};
    for (int tile = 0; tile < tiles_; ++tile) {
      if (!job_.resident) ComputeLogits(tile);
      const T* value = job_.value + batch_ * job_.value_batch + head_ * job_.value_head +
                       static_cast<int64_t>(tile) * kKeys * job_.value_token;
      __syncthreads();
      SoftmaxAbove(tile, equal_before, sum);
      cuda::LoadTile(value, job_.value_token, KeysIn(tile), job_.dim, kKeys, job_.padded_dim,
                     Tile(), TileRow());
      __syncthreads();
      cuda::MultiplyTiles<T, /*kTransposedB=*/false, /*kAccumulate=*/true>(
          Weights(), kKeys + kRowPad<T>, Tile(), TileRow(), kKeys, job_.padded_dim, Output(),
          output_row);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const float total = cuda::WarpSum(sum[i]);
      factor_[i] = broken_[i] ? NAN : total > 0.0f ? 1.0f / total : 0.0f;
    }
  }

  __device__ void StoreOutput() {
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int row = FirstRowOfWarp() + i;
      if (row >= rows_) return;
      T* out = job_.output + batch_ * job_.output_batch + head_ * job_.output_head +
               (first_ + row) * job_.output_token;
      const float* from = Output() + row * (job_.padded_dim + kLogitPad);
      for (int c = Lane(); c < job_.dim; c += 32) out[c] = T(from[c] * factor_[i]);
    }
  }

  const CudaJob<T>& job_;
  const SharedLayout layout_;
  unsigned char* const shared_;
  int64_t batch_, head_, first_;
  int rows_, tiles_, logit_row_;
  float largest_[kRowsPerWarp];
  bool broken_[kRowsPerWarp];
  float factor_[kRowsPerWarp];
};

}  // namespace fovea::kernels::knn
