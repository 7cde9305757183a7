// Attention on CUDA in one walk over the keys, one thread block's work: all operators that select
// nothing. Device code; cuda_online_launch.h launches it, and tests/kernels/cuda_on_host runs it
// where there is no GPU.
//
// A block takes up to 64 queries of one sequence (tokens that attend each other), a warp sixteen of
// them, and 64 keys at a time: logits into registers, weights there (cuda_weights.h), their product
// with the values added to the output there. No logit reaches any memory, but for fp32's weights,
// which pass through the warp's own corner of shared memory. While one tile is multiplied, the next
// is on its way: two buffers for keys, one for values, which are copied while the logits are made
// (Dao, FlashAttention-2, 2023).
//
// Head dimensions up to 64 are unrolled. Longer ones take their logits in a loop, and a block makes
// 64 channels of the output: further ones are further blocks' work, which compute the logits again.
//
// A job says what is attended:
//   Weights, Weights::Parameters weights   OnlineSoftmax or Elementwise
//   kTaps             key tiles that a tile of logits is the sum of: 1, or a convolution's
//   JobSize size
//   Sequence At(block, rows)               which sequence a block works on
// and a sequence where its tokens lie, null for zeros, and what its logits are:
//   first, queries, keys                   the block's first query; how many there are in all
//   QueryRows(rows), QueryRow(i, rows)     what the left operand is made of in shared memory, and
//   LeftRow(tap, i, rows)                  which of it is query i's row at a tap
//   Key(tap, j), Value(j), Output(i)
//   RowOf(i), ColumnOf(j), Logit(product, row, column)
// kResumes, kSuspends: each query's state comes from, or goes to, the job's StateOf(sequence, i).
#pragma once

#include <c10/util/Exception.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/attention/shared/cuda_weights.h"
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/warp.h"
#include "kernels/cuda/warp_product.h"

namespace fovea::kernels::cuda {

inline constexpr int kOnlineKeys = 64;      // in a tile
inline constexpr int kOnlineThreads = 128;  // at most

struct JobSize {
  int dim;            // head_dim
  int queries, keys;  // of the longest sequence
  bool vectors;       // everything is IsVectorAligned
};

inline JobSize SizeOf(int64_t dim, int64_t queries, int64_t keys, bool vectors) {
  constexpr int64_t kMost = 1 << 30;
  TORCH_CHECK(dim <= kMost && queries <= kMost && keys <= kMost, "at most ", kMost,
              " channels, queries and keys fit a CUDA kernel, not ", dim, ", ", queries, " and ",
              keys);
  return {static_cast<int>(dim), static_cast<int>(queries), static_cast<int>(keys), vectors};
}

// One query's unfinished softmax, in global memory.
struct SavedState {
  float* output;  // [head_dim], not normalised
  float* largest_and_sum;
};

// What can be chosen before a launch. kDepth: head_dim rounded up where it is unrolled, else 0.
template <class T, class Job, int kDepth>
struct OnlineLayout {
  static constexpr int kChannels = kDepth == 32 ? 32 : 64;  // of the output, in a block
  static constexpr int kValueRow = kChannels + kRowPad<T>;

  int rows, depth, key_rows, buffers, chunks;
  int64_t keys, values, weights, end;  // bytes from the beginning of shared memory

  FOVEA_HOST_DEVICE explicit OnlineLayout(const JobSize& size) {
    const int warps = (size.queries + kWarpRows - 1) / kWarpRows;
    rows = (warps < kOnlineThreads / 32 ? warps : kOnlineThreads / 32) * kWarpRows;
    depth = kDepth > 0 ? kDepth : (size.dim + 15) / 16 * 16;
    key_rows = size.keys < kOnlineKeys ? (size.keys + 15) / 16 * 16 : kOnlineKeys;
    buffers = Job::kTaps > 1 || size.keys > kOnlineKeys ? 2 : 1;
    chunks = (size.dim + kChannels - 1) / kChannels;
    keys = RowBytes(Job::Sequence::QueryRows(rows), depth + kRowPad<T>);
    values = keys + RowBytes(buffers * key_rows, depth + kRowPad<T>);
    weights = values + RowBytes(key_rows, kValueRow);
    end = weights + (kOnTensorCores<T> ? 0 : RowBytes(rows, kWeightRow<kOnlineKeys>));
  }

  FOVEA_HOST_DEVICE int Threads() const { return rows / kWarpRows * 32; }
  FOVEA_HOST_DEVICE static int64_t RowBytes(int64_t rows, int64_t row) {
    return rows * row * static_cast<int64_t>(sizeof(T));
  }
};

// Calls run(std::integral_constant<int, kDepth>).
template <class Run>
void ForDepth(int64_t dim, const Run& run) {
  if (dim <= 32) {
    run(std::integral_constant<int, 32>{});
  } else if (dim <= 64) {
    run(std::integral_constant<int, 64>{});
  } else {
    run(std::integral_constant<int, 0>{});
  }
}

// One block's work.
template <class T, class Job, int kDepth>
class OnlineBlock {
 public:
  __device__ OnlineBlock(const Job& job, unsigned char* shared)
      : job_(job),
        layout_(job.size),
        shared_(shared),
        chunk_(static_cast<int>(blockIdx.x % layout_.chunks)),
        sequence_(job.At(blockIdx.x / layout_.chunks, layout_.rows)),
        weights_(job.weights) {}

  __device__ void Run() {
    const int row = layout_.depth + kRowPad<T>;
    CopyRows<T>([&](int i) { return sequence_.QueryRow(i, layout_.rows); },
                Job::Sequence::QueryRows(layout_.rows), job_.size.dim, layout_.depth,
                job_.size.vectors, Queries(), row);
    CopyKeys(0, 0, 0);
    CommitCopies();
    Start();
    const int tiles = (sequence_.keys + kOnlineKeys - 1) / kOnlineKeys;
    for (int tile = 0, buffer = 0; tile < tiles; ++tile) {
      float logits[kOnlineKeys / 8][4] = {};
      for (int tap = 0; tap < Job::kTaps; ++tap, buffer ^= 1) {
        WaitForCopies<0>();
        __syncthreads();
        if (tap == 0) CopyValues(tile);
        CommitCopies();
        const bool last = tap == Job::kTaps - 1;
        if (!last || tile + 1 < tiles)
          CopyKeys(last ? tile + 1 : tile, last ? 0 : tap + 1, buffer ^ 1);
        CommitCopies();
        if (!IsIdle()) AddProducts(tile, tap, buffer, logits);
      }
      if (!IsIdle()) {
        MakeLogits(tile, logits);
        weights_.Weigh(logits, KeysIn(tile), output_);
      }
      WaitForCopies<1>();  // the values; the next keys may be on their way
      __syncthreads();
      if (!IsIdle()) {
        MultiplyWeights<T>(logits, Values(), Layout::kValueRow, KeysIn(tile), WeightScratch(),
                           output_);
      }
    }
    if (!IsIdle()) Finish();
  }

 private:
  using Layout = OnlineLayout<T, Job, kDepth>;
  static constexpr bool kKeepsQueries = kDepth > 0 && Job::kTaps == 1 && kOnTensorCores<T>;

  __device__ T* Queries() const { return reinterpret_cast<T*>(shared_); }
  __device__ T* Keys(int buffer) const {
    return reinterpret_cast<T*>(shared_ + layout_.keys) +
           buffer * layout_.key_rows * (layout_.depth + kRowPad<T>);
  }
  __device__ T* Values() const { return reinterpret_cast<T*>(shared_ + layout_.values); }
  __device__ float* WeightScratch() const {
    return reinterpret_cast<float*>(shared_ + layout_.weights) +
           FirstRow() * kWeightRow<kOnlineKeys>;
  }
  __device__ int FirstRow() const { return static_cast<int>(threadIdx.x) / 32 * kWarpRows; }
  __device__ int Query(int i) const { return sequence_.first + FirstRow() + RowOf(i); }
  // A warp without queries copies, and waits where the others do.
  __device__ bool IsIdle() const { return sequence_.first + FirstRow() >= sequence_.queries; }
  __device__ int KeysIn(int tile) const {
    const int left = sequence_.keys - tile * kOnlineKeys;
    return left < kOnlineKeys ? left : kOnlineKeys;
  }
  __device__ int PaddedKeysIn(int tile) const { return (KeysIn(tile) + 15) / 16 * 16; }

  __device__ void CopyKeys(int tile, int tap, int buffer) {
    const int keys = KeysIn(tile);
    CopyRows<T>(
        [&](int j) { return j < keys ? sequence_.Key(tap, tile * kOnlineKeys + j) : nullptr; },
        PaddedKeysIn(tile), job_.size.dim, layout_.depth, job_.size.vectors, Keys(buffer),
        layout_.depth + kRowPad<T>);
  }

  __device__ void CopyValues(int tile) {
    const int keys = KeysIn(tile);
    const int first = chunk_ * Layout::kChannels;
    const int left = job_.size.dim - first;
    CopyRows<T>(
        [&](int j) -> const T* {
          const T* value = j < keys ? sequence_.Value(tile * kOnlineKeys + j) : nullptr;
          return value == nullptr ? nullptr : value + first;
        },
        PaddedKeysIn(tile), left < Layout::kChannels ? left : Layout::kChannels, Layout::kChannels,
        job_.size.vectors, Values(), Layout::kValueRow);
  }

  __device__ void AddProducts(int tile, int tap, int buffer, float (&logits)[kOnlineKeys / 8][4]) {
    const int row = layout_.depth + kRowPad<T>;
    const auto left_row = [&](int i) {
      return Queries() + sequence_.LeftRow(tap, FirstRow() + i, layout_.rows) * row;
    };
    if constexpr (Job::kTaps > 1) {
      if (tile == 0 && tap == Job::kTaps - 1) sequence_.BeforeLastTap(logits);
    }
    if constexpr (kKeepsQueries) {
      if (tile == 0) kept_queries_.Keep(left_row);
      MultiplyByRows<kDepth>(kept_queries_, Keys(buffer), row, layout_.depth, KeysIn(tile), logits);
    } else {
      MultiplyByRows<kDepth>(LeftRows<T>(left_row), Keys(buffer), row, layout_.depth, KeysIn(tile),
                             logits);
    }
  }

  // Products into logits; -inf where there is no key.
  __device__ void MakeLogits(int tile, float (&logits)[kOnlineKeys / 8][4]) const {
    const int last = sequence_.queries - 1;  // rows past it are computed, and stored nowhere
    const auto row = [&](int i) { return sequence_.RowOf(Query(i) < last ? Query(i) : last); };
    const typename Job::Sequence::Row rows[2] = {row(0), row(1)};
    const int keys = KeysIn(tile);
#pragma unroll
    for (int n = 0; n < kOnlineKeys / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int j = ColumnOf(n, c);
        if (j < keys) {
          const auto column = sequence_.ColumnOf(tile * kOnlineKeys + j);
          logits[n][c] = sequence_.Logit(logits[n][c], rows[0], column);
          logits[n][2 + c] = sequence_.Logit(logits[n][2 + c], rows[1], column);
        } else {
          logits[n][c] = logits[n][2 + c] = -INFINITY;
        }
      }
    }
  }

  __device__ void Start() {
    if constexpr (Job::kResumes) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (Query(i) >= sequence_.queries) continue;
        const SavedState saved = job_.StateOf(sequence_, Query(i));
        weights_.Resume(i, saved.largest_and_sum[0], saved.largest_and_sum[1]);
        ForEachChannel([&](int channel, float& x) { x = saved.output[channel]; }, i);
      }
    }
  }

  __device__ void Finish() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (Job::kSuspends) {
        const float sum = weights_.Sum(i);  // of all lanes
        if (Query(i) >= sequence_.queries) continue;
        const SavedState saved = job_.StateOf(sequence_, Query(i));
        saved.largest_and_sum[0] = weights_.Largest(i);
        saved.largest_and_sum[1] = sum;
        ForEachChannel([&](int channel, float& x) { saved.output[channel] = x; }, i);
      } else {
        const float factor = weights_.Factor(i);  // of all lanes
        T* const out = Query(i) < sequence_.queries ? sequence_.Output(Query(i)) : nullptr;
        if (out == nullptr) continue;
        Store(out + chunk_ * Layout::kChannels, factor, i);
      }
    }
  }

  __device__ void Store(T* out, float factor, int i) const {
    const int channels = job_.size.dim - chunk_ * Layout::kChannels;
#pragma unroll
    for (int n = 0; n < Layout::kChannels / 8; ++n) {
      const int c = ColumnOf(n, 0);
      const float x[2] = {output_[n][2 * i] * factor, output_[n][2 * i + 1] * factor};
      if (job_.size.vectors && c < channels) {
        StorePair(x, out + c);
      } else {
        if (c < channels) out[c] = T(x[0]);
        if (c + 1 < channels) out[c + 1] = T(x[1]);
      }
    }
  }

  __device__ static void StorePair(const float (&x)[2], T* to) {
    if constexpr (kOnTensorCores<T>) {
      *reinterpret_cast<uint32_t*>(to) = Pack<T>(x[0], x[1]);
    } else {
      struct alignas(8) Pair {
        float at[2];
      };
      *reinterpret_cast<Pair*>(to) = Pair{{x[0], x[1]}};
    }
  }

  // Calls visit(channel, x) for the channels of row RowOf(i) that are this lane's.
  template <class Visit>
  __device__ void ForEachChannel(const Visit& visit, int i) {
#pragma unroll
    for (int n = 0; n < Layout::kChannels / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int channel = chunk_ * Layout::kChannels + cuda::ColumnOf(n, c);
        if (channel < job_.size.dim) visit(channel, output_[n][2 * i + c]);
      }
    }
  }

  struct Nothing {};

  const Job& job_;
  const Layout layout_;
  unsigned char* const shared_;
  const int chunk_;
  const typename Job::Sequence sequence_;
  typename Job::Weights weights_;
  float output_[Layout::kChannels / 8][4] = {};
  std::conditional_t<kKeepsQueries, KeptLeftRows<T, kDepth == 0 ? 16 : kDepth>, Nothing>
      kept_queries_;
};

}  // namespace fovea::kernels::cuda
