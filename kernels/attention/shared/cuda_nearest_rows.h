// Attention to the nearest keys on CUDA, one thread block's work: knn_attention, where the nearest
// keys are those of the largest logits, and knn_attention_exact, where they are so by Euclidean
// distance. Device code; cuda.cu launches it, and tests/kernels/cuda_on_host runs it where there is
// no GPU.
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

#include "kernels/attention/shared/cuda_tokens.h"
#include "kernels/attention/shared/select.h"
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

// What makes a key near. Where it is its logit, shared memory holds logits. Where it is its
// distance, shared memory holds query . key (-inf where the key is no neighbour) and |key|^2 / 2.
enum class Near { kLogit, kEuclidean };

template <class T>
struct CudaJob {
  cuda::Tokens<const T> query, key, value;
  cuda::Tokens<T> output;
  cuda::LogitBias bias;
  int64_t batch, heads, queries, keys, topk;
  int dim, padded_dim;  // head_dim, and rounded up to whole fragments
  float scale;
  bool resident;  // all logits of a block are kept

  int64_t Blocks() const { return batch * heads * ((queries + kRows - 1) / kRows); }
};

// A block's shared memory, in bytes from its beginning.
struct SharedLayout {
  int query, tile, weights, output, logits, norms, search, end;
};

template <class T, Near kNear>
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
  at.norms = at.logits + static_cast<int>(kRows * (logit_columns + kLogitPad) * 4);
  at.end = at.norms + (kNear == Near::kEuclidean ? static_cast<int>(logit_columns * 4) : 0);
  return at;
}

// From KnnAttentionInputs or KnnAttentionExactInputs. `available`: bytes of shared memory.
template <class T, Near kNear, class Inputs>
CudaJob<T> MakeJob(const Inputs& in, const at::Tensor& output, int available) {
  CudaJob<T> job{};
  job.query = cuda::TokensOf<T>(in.query);
  job.key = cuda::TokensOf<T>(in.key);
  job.value = cuda::TokensOf<T>(in.value);
  job.output = cuda::WritableTokensOf<T>(output);
  job.bias = cuda::LogitBiasOf(in.bias);
  job.batch = in.query.size(0);
  job.heads = in.query.size(1);
  job.queries = in.query.size(2);
  job.keys = in.key.size(2);
  job.topk = in.topk;
  job.dim = static_cast<int>(in.query.size(3));
  job.padded_dim = (job.dim + cuda::kFragment - 1) / cuda::kFragment * cuda::kFragment;
  job.scale = static_cast<float>(in.scale);
  constexpr int64_t kMostResidentKeys = 1 << 14;  // far beyond any device; keeps the sizes in int
  job.resident = job.keys <= kMostResidentKeys &&
                 LayoutOf<T, kNear>(job.padded_dim, job.keys, true).end <= available;
  return job;
}

// One block's work.
template <class T, Near kNear>
class RowBlock {
 public:
  __device__ RowBlock(const CudaJob<T>& job, unsigned char* shared)
      : job_(job),
        layout_(LayoutOf<T, kNear>(job.padded_dim, job.keys, job.resident)),
        shared_(shared) {
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
    const T* query = job_.query.Of(batch_, head_) + first_ * job_.query.token;
    cuda::LoadTile(query, job_.query.token, rows_, job_.dim, kRows, job_.padded_dim, Query(),
                   TileRow());
    if (job_.resident) {
      for (int tile = 0; tile < tiles_; ++tile) ComputeLogits(tile);
    }
    Measure();
    SelectThresholds();
    if constexpr (kNear == Near::kEuclidean) FindLargestLogits();
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
  __device__ float* Norms(int tile) const {
    return reinterpret_cast<float*>(shared_ + layout_.norms) + (job_.resident ? tile * kKeys : 0);
  }
  __device__ int TileRow() const { return job_.padded_dim + kRowPad<T>; }
  __device__ int KeysIn(int tile) const {
    const int64_t left = job_.keys - static_cast<int64_t>(tile) * kKeys;
    return left < kKeys ? static_cast<int>(left) : kKeys;
  }
  __device__ int Lane() const { return threadIdx.x % 32; }
  __device__ int FirstRowOfWarp() const { return threadIdx.x / 32 * kRowsPerWarp; }

  // A tile's logits, or products and norms, into shared memory. Synchronises before and after.
  __device__ void ComputeLogits(int tile) {
    const int64_t first_key = static_cast<int64_t>(tile) * kKeys;
    const int keys = KeysIn(tile);
    const T* key = job_.key.Of(batch_, head_) + first_key * job_.key.token;
    __syncthreads();
    cuda::LoadTile(key, job_.key.token, keys, job_.dim, kKeys, job_.padded_dim, Tile(), TileRow());
    __syncthreads();
    cuda::MultiplyTiles<T, /*kTransposedB=*/true, /*kAccumulate=*/false>(
        Query(), TileRow(), Tile(), TileRow(), job_.padded_dim, kKeys, Logits(tile), logit_row_);
    if constexpr (kNear == Near::kEuclidean) ComputeNorms(tile);
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kKeys; i += kThreads) {
      const int r = i / kKeys;
      const int j = i % kKeys;
      float* logit = Logits(tile) + r * logit_row_ + j;
      const float bias = r < rows_ && j < keys ? BiasOf(r, first_key + j) : 0.0f;
      if constexpr (kNear == Near::kLogit) {
        *logit = fmaf(*logit, job_.scale, bias);
      } else if (!(fabsf(bias) < INFINITY)) {
        *logit = -INFINITY;
      }
    }
    __syncthreads();
  }

  __device__ float BiasOf(int row, int64_t key) const {
    const float* bias = job_.bias.Row(batch_, head_, first_ + row);
    return bias == nullptr ? 0.0f : bias[key * job_.bias.key];
  }

  // |key|^2 / 2 of a tile's keys.
  __device__ void ComputeNorms(int tile) {
    for (int j = threadIdx.x / 32; j < kKeys; j += kThreads / 32) {
      const T* key = Tile() + j * TileRow();
      float squares = 0.0f;
      for (int c = Lane(); c < job_.padded_dim; c += 32) {
        const float x = static_cast<float>(key[c]);
        squares = fmaf(x, x, squares);
      }
      squares = cuda::WarpSum(squares);
      if (Lane() == 0) Norms(tile)[j] = 0.5f * squares;
    }
  }

  // How near a key is, from what shared memory holds of it.
  __device__ float Nearness(int tile, float logit, int j) const {
    // No neighbour stays none, whatever its norm.
    if (kNear == Near::kLogit || logit == -INFINITY) return logit;
    return logit - Norms(tile)[j];
  }

  // Calls visit(i, nearness) for each of the warp's rows i and the keys that are this lane's.
  template <class Visit>
  __device__ void ForEachLogit(const Visit& visit) {
    for (int tile = 0; tile < tiles_; ++tile) {
      if (!job_.resident) ComputeLogits(tile);
      const int keys = KeysIn(tile);
#pragma unroll
      for (int i = 0; i < kRowsPerWarp; ++i) {
        const float* logits = Logits(tile) + (FirstRowOfWarp() + i) * logit_row_;
        for (int j = Lane(); j < keys; j += 32) visit(i, Nearness(tile, logits[j], j));
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

  // Calls visit(i, j, logit, selected) for the warp's rows i and all places j of a tile that are
  // this lane's. `equal_before`: keys as near as the threshold in tiles before; counted on.
  template <class Visit>
  __device__ void ForEachSelected(int tile, int64_t (&equal_before)[kRowsPerWarp],
                                  const Visit& visit) {
    const int keys = KeysIn(tile);
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int row = FirstRowOfWarp() + i;
      const ThresholdSearch& search = SearchOf(row);
      const float threshold = search.Threshold();
      const float* logits = Logits(tile) + row * logit_row_;
      for (int j = Lane(); j < kKeys; j += 32) {
        const float s = j < keys ? Nearness(tile, logits[j], j) : -INFINITY;
        const unsigned equal = __ballot_sync(kAllLanes, s == threshold && j < keys);
        const int64_t rank = equal_before[i] + __popc(equal & ((1u << Lane()) - 1));
        const bool selected = j < keys && !broken_[i] && Takes(s, threshold, rank, search.Ties());
        visit(i, j, selected ? LogitOf(tile, row, j) : -INFINITY, selected);
        equal_before[i] += __popc(equal);
      }
    }
  }

  __device__ float LogitOf(int tile, int row, int j) const {
    const float logit = Logits(tile)[row * logit_row_ + j];
    if constexpr (kNear == Near::kLogit) return logit;
    const int64_t key = static_cast<int64_t>(tile) * kKeys + j;
    return fmaf(logit, job_.scale, row < rows_ ? BiasOf(row, key) : 0.0f);
  }

  // The nearest key need not have the largest logit.
  __device__ void FindLargestLogits() {
    int64_t equal_before[kRowsPerWarp] = {};
    for (int i = 0; i < kRowsPerWarp; ++i) largest_[i] = -INFINITY;
    for (int tile = 0; tile < tiles_; ++tile) {
      if (!job_.resident) ComputeLogits(tile);
      ForEachSelected(tile, equal_before, [&](int i, int, float logit, bool) {
        largest_[i] = fmaxf(largest_[i], logit);
      });
    }
    for (int i = 0; i < kRowsPerWarp; ++i) largest_[i] = cuda::WarpMax(largest_[i]);
  }

  __device__ void WeightedValues() {
    const int output_row = job_.padded_dim + kLogitPad;
    for (int i = threadIdx.x; i < kRows * output_row; i += kThreads) Output()[i] = 0.0f;
    int64_t equal_before[kRowsPerWarp] = {};
    float sum[kRowsPerWarp] = {};
    for (int tile = 0; tile < tiles_; ++tile) {
      if (!job_.resident) ComputeLogits(tile);
      const T* value =
          job_.value.Of(batch_, head_) + static_cast<int64_t>(tile) * kKeys * job_.value.token;
      __syncthreads();
      ForEachSelected(tile, equal_before, [&](int i, int j, float logit, bool selected) {
        const float weight = selected ? Weight(logit, largest_[i]) : 0.0f;
        sum[i] += weight;
        Weights()[(FirstRowOfWarp() + i) * (kKeys + kRowPad<T>)+j] = T(weight);
      });
      cuda::LoadTile(value, job_.value.token, KeysIn(tile), job_.dim, kKeys, job_.padded_dim,
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
      factor_[i] = broken_[i] ? NAN : total == 0.0f ? 0.0f : 1.0f / total;
    }
  }

  __device__ void StoreOutput() {
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int row = FirstRowOfWarp() + i;
      if (row >= rows_) return;
      T* out = job_.output.Of(batch_, head_) + (first_ + row) * job_.output.token;
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
