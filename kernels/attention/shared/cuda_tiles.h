// Tiles of keys and values on their way through one thread block: what cuda_online.h and
// cuda_nearest.h walk over. Device code.
//
// A block takes up to 64 queries of one sequence (tokens that attend each other), a warp sixteen of
// them, and 64 keys at a time: products and logits into registers, weights there, their product
// with the values added to the output there. No logit reaches any memory, but for fp32's weights,
// which pass through the warp's own corner of shared memory. While one tile is multiplied, the next
// is on its way: two buffers for keys, one for values.
//
// Head dimensions up to 64 are unrolled. Longer ones take their logits in a loop, and a block makes
// 64 channels of the output: further ones are further blocks' work, which compute the logits again.
//
// A job says what is attended:
//   kTaps             key tiles that a tile of logits is the sum of: 1, or a convolution's
//   JobSize size
//   Sequence At(block, rows)               which sequence a block works on
// and a sequence where its tokens lie, null for zeros, and what its logits are:
//   first, queries, keys                   the block's first query; how many there are in all
//   QueryRows(rows), QueryRow(i, rows)     what the left operand is made of in shared memory, and
//   LeftRow(tap, i, rows)                  which of it is query i's row at a tap
//   Key(tap, j), Value(j), Output(i)
//   RowOf(i), ColumnOf(j), Logit(product, row, column)
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/attention/shared/cuda_tile_layout.h"
#include "kernels/cuda/warp_product.h"

namespace fovea::kernels::cuda {

// A warp's rows of a tile, as warp_product.h has them: products, then logits, then weights.
using TileRows = float[kTileKeys / 8][4];

// One block's sequence, its shared memory, and its output in registers. All threads call its walks.
template <class T, class Job, int kDepth>
class TileBlock {
 public:
  using Layout = TileLayout<T, Job, kDepth>;
  using Sequence = typename Job::Sequence;
  using Output = float[Layout::kChannels / 8][4];

  __device__ TileBlock(const Job& job, unsigned char* shared)
      : size_(job.size),
        layout_(job.size),
        shared_(shared),
        first_channel_(static_cast<int>(blockIdx.x % layout_.chunks) * Layout::kChannels),
        sequence_(job.At(blockIdx.x / layout_.chunks, layout_.rows)) {}

  __device__ const Layout& layout() const { return layout_; }
  __device__ const Sequence& sequence() const { return sequence_; }
  __device__ Output& output() { return output_; }

  // The query of this lane's row i.
  __device__ int Query(int i) const { return sequence_.first + FirstRow() + cuda::RowOf(i); }
  // Rows past the last query are computed as if they were that, and stored nowhere.
  __device__ typename Sequence::Row RowOf(int i) const {
    return sequence_.RowOf(HasQuery(i) ? Query(i) : sequence_.queries - 1);
  }
  __device__ bool HasQuery(int i) const { return Query(i) < sequence_.queries; }
  // A warp without queries copies, and waits where the others do.
  __device__ bool IsIdle() const { return sequence_.first + FirstRow() >= sequence_.queries; }
  __device__ int Tiles() const { return (sequence_.keys + kTileKeys - 1) / kTileKeys; }
  __device__ int KeysIn(int tile) const {
    const int left = sequence_.keys - tile * kTileKeys;
    return left < kTileKeys ? left : kTileKeys;
  }
  __device__ int PaddedKeysIn(int tile) const { return (KeysIn(tile) + 15) / 16 * 16; }

  // Before the first walk, which waits for them.
  __device__ void CopyQueries() const {
    CopyRows<T>([&](int i) { return sequence_.QueryRow(i, layout_.rows); },
                Sequence::QueryRows(layout_.rows), size_.dim, layout_.depth, size_.vectors,
                Queries(), layout_.KeyRow());
  }

  // A walk over the keys: visit(tile, logits) with each tile's, of warps that have queries. Before
  // that all threads call keys_ready(tile, keys) with the tile in shared memory.
  //   kWithValues: what `visit` leaves in `logits` are weights; with them the values are added to
  //     the output.
  //   kMostTiles: where tiles are to be constants to `visit`; 0 for any number.
  // All threads have met at a barrier since the walk before.
  template <int kMostTiles, bool kWithValues, class KeysReady, class Visit>
  __device__ void Walk(const KeysReady& keys_ready, const Visit& visit) {
    CopyKeys(0, 0, 0);
    CommitCopies();
    const int tiles = Tiles();
    int buffer = 0;
#pragma unroll kMostTiles> 0 ? kMostTiles : 1
    for (int tile = 0; tile < (kMostTiles > 0 ? kMostTiles : tiles); ++tile) {
      if (tile < tiles) {
        TileRows logits = {};
        for (int tap = 0; tap < Job::kTaps; ++tap, buffer ^= 1) {
          WaitForCopies<0>();
          __syncthreads();
          if (kWithValues && tap == 0) CopyValues(tile, Values());
          CommitCopies();
          const bool last = tap == Job::kTaps - 1;
          if (!last || tile + 1 < tiles) {
            CopyKeys(last ? tile + 1 : tile, last ? 0 : tap + 1, buffer ^ 1);
          }
          CommitCopies();
          if (last) keys_ready(tile, Keys(buffer));
          if (!IsIdle()) AddProducts(tile, tap, buffer, logits);
        }
        if (!IsIdle()) {
          MakeLogits(tile, logits);
          visit(tile, logits);
        }
        if constexpr (kWithValues) {
          WaitForCopies<1>();  // the values; the next keys may be on their way
          __syncthreads();
          if (!IsIdle()) AddValues(tile, logits, Values());
        }
      }
    }
  }

  // After a walk without values whose logits were kept: starts a walk over the values alone, whose
  // first tile is on its way until it is needed.
  __device__ void StartValues() const {
    CopyValues(0, Values());
    CommitCopies();
  }
  // Adds them to the output with the weights that weights_of(tile) returns. Every second tile
  // goes where keys lay.
  template <int kMostTiles, class WeightsOf>
  __device__ void WalkValues(const WeightsOf& weights_of) {
    const int tiles = Tiles();
#pragma unroll
    for (int tile = 0; tile < kMostTiles; ++tile) {
      if (tile < tiles) {
        T* const place[2] = {tile % 2 == 0 ? Values() : Keys(0),
                             tile % 2 == 0 ? Keys(0) : Values()};
        WaitForCopies<0>();
        __syncthreads();
        if (tile + 1 < tiles) CopyValues(tile + 1, place[1]);
        CommitCopies();
        if (!IsIdle()) AddValues(tile, weights_of(tile), place[0]);
      }
    }
  }

  // Row i of the output times `factor` to where the sequence wants it.
  __device__ void Store(int i, float factor) const {
    T* const out = HasQuery(i) ? sequence_.Output(Query(i)) : nullptr;
    if (out == nullptr) return;
#pragma unroll
    for (int n = 0; n < Layout::kChannels / 8; ++n) {
      const int c = first_channel_ + ColumnOf(n, 0);
      const float x[2] = {output_[n][2 * i] * factor, output_[n][2 * i + 1] * factor};
      if (size_.vectors && c < size_.dim) {
        StorePair(x, out + c);
      } else {
        if (c < size_.dim) out[c] = T(x[0]);
        if (c + 1 < size_.dim) out[c + 1] = T(x[1]);
      }
    }
  }

  // Calls visit(channel, x) for the output's channels of row i that are this lane's.
  template <class Visit>
  __device__ void ForEachChannel(int i, const Visit& visit) {
#pragma unroll
    for (int n = 0; n < Layout::kChannels / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int channel = first_channel_ + ColumnOf(n, c);
        if (channel < size_.dim) visit(channel, output_[n][2 * i + c]);
      }
    }
  }

 private:
  static constexpr bool kKeepsQueries = kDepth > 0 && Job::kTaps == 1 && kOnTensorCores<T>;

  __device__ T* Queries() const { return reinterpret_cast<T*>(shared_); }
  __device__ T* Keys(int buffer) const {
    return reinterpret_cast<T*>(shared_ + layout_.keys) +
           buffer * layout_.key_rows * layout_.KeyRow();
  }
  __device__ T* Values() const { return reinterpret_cast<T*>(shared_ + layout_.values); }
  __device__ float* WeightScratch() const {
    return reinterpret_cast<float*>(shared_ + layout_.weights) + FirstRow() * kWeightRow<kTileKeys>;
  }
  __device__ int FirstRow() const { return static_cast<int>(threadIdx.x) / 32 * kWarpRows; }

  __device__ void CopyKeys(int tile, int tap, int buffer) const {
    const int keys = KeysIn(tile);
    CopyRows<T>(
        [&](int j) { return j < keys ? sequence_.Key(tap, tile * kTileKeys + j) : nullptr; },
        PaddedKeysIn(tile), size_.dim, layout_.depth, size_.vectors, Keys(buffer),
        layout_.KeyRow());
  }

  __device__ void CopyValues(int tile, T* to) const {
    const int keys = KeysIn(tile);
    const int left = size_.dim - first_channel_;
    CopyRows<T>(
        [&](int j) -> const T* {
          const T* value = j < keys ? sequence_.Value(tile * kTileKeys + j) : nullptr;
          return value == nullptr ? nullptr : value + first_channel_;
        },
        PaddedKeysIn(tile), left < Layout::kChannels ? left : Layout::kChannels, Layout::kChannels,
        size_.vectors, to, Layout::kValueRow);
  }

  __device__ void AddProducts(int tile, int tap, int buffer, TileRows& logits) {
    const int row = layout_.KeyRow();
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
  __device__ void MakeLogits(int tile, TileRows& logits) const {
    const typename Sequence::Row rows[2] = {RowOf(0), RowOf(1)};
    const int keys = KeysIn(tile);
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int j = ColumnOf(n, c);
        if (j < keys) {
          const auto column = sequence_.ColumnOf(tile * kTileKeys + j);
          logits[n][c] = sequence_.Logit(logits[n][c], rows[0], column);
          logits[n][2 + c] = sequence_.Logit(logits[n][2 + c], rows[1], column);
        } else {
          logits[n][c] = logits[n][2 + c] = -INFINITY;
        }
      }
    }
  }

  __device__ void AddValues(int tile, const TileRows& weights, const T* values) {
    MultiplyWeights<T>(weights, values, Layout::kValueRow, KeysIn(tile), WeightScratch(), output_);
  }

  __device__ static void StorePair(const float (&x)[2], T* to) {
    if constexpr (kOnTensorCores<T>) {
      *reinterpret_cast<uint32_t*>(to) = Pack<T>(x[0], x[1]);
    } else {
      ElementsAt<2>(to) = {{x[0], x[1]}};
    }
  }

  struct Nothing {};

  const JobSize& size_;
  const Layout layout_;
  unsigned char* const shared_;
  const int first_channel_;
  const Sequence sequence_;
  Output output_ = {};
  std::conditional_t<kKeepsQueries, KeptLeftRows<T, kDepth == 0 ? 16 : kDepth>, Nothing>
      kept_queries_;
};

}  // namespace fovea::kernels::cuda
