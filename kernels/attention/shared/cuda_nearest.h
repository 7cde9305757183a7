// Attention to the nearest keys on CUDA, one thread block's work: knn_attention, where the nearest
// keys are those of the largest logits, and knn_attention_exact, where they are so by Euclidean
// distance. Device code; cuda_nearest_launch.h launches it, and tests/kernels/cuda_on_host runs it
// where there is no GPU.
//
// A row's threshold is searched for by counting (select.h) over cuda_tiles.h's tiles. The four
// lanes of a quad share two rows: each adds up its own registers, two shuffles make the row's count
// of them, and all four run the same search with it.
//
// Short rows, of up to 256 keys, keep their logits in registers: a round of counting touches no
// memory and meets no barrier, and the rows of a warp search until the last of them is done. Longer
// rows compute their logits again on each walk over the keys: for the moments, for each round,
// which counts at three guesses at once so that there are few, and for the weights. Every walk
// computes the same bits. Nothing grows with the number of keys.
//
// What is left out of a row becomes -inf, and cuda_weights.h's softmax does the rest: it makes
// zeros of a row of which nothing is left, and NaN of one with a NaN or +inf.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/attention/shared/cuda_nearest_job.h"
#include "kernels/attention/shared/cuda_tiles.h"
#include "kernels/attention/shared/cuda_weights.h"
#include "kernels/attention/shared/select.h"
#include "kernels/cuda/warp.h"

namespace fovea::kernels::knn {

using cuda::TileRows;

// kKeptTiles: of a row's keys where their logits are kept in registers, 0 where they are not.
// Calls run(std::integral_constant<int, kKeptTiles>).
template <class Run>
void ForKeptTiles(int64_t keys, const Run& run) {
  if (keys <= cuda::kTileKeys) {
    run(std::integral_constant<int, 1>{});
  } else if (keys <= 4 * cuda::kTileKeys) {
    run(std::integral_constant<int, 4>{});
  } else {
    run(std::integral_constant<int, 0>{});
  }
}

// One block's work.
template <class T, class Job, int kDepth, int kKeptTiles>
class NearestBlock {
 public:
  // Bytes of shared memory: the tiles', then |key|^2 / 2 of those keys whose logits are at hand.
  FOVEA_HOST_DEVICE static int64_t SharedBytes(const cuda::TileLayout<T, Job, kDepth>& layout) {
    const int norms = kEuclidean ? (kKept ? kKeptTiles : 1) * cuda::kTileKeys : 0;
    return layout.end + norms * static_cast<int64_t>(sizeof(float));
  }

  __device__ NearestBlock(const Job& job, unsigned char* shared)
      : job_(job),
        tiles_(job, shared),
        norms_(reinterpret_cast<float*>(shared + tiles_.layout().end)) {}

  __device__ void Run() {
    tiles_.CopyQueries();
    if constexpr (kKept) {
      Walk<kKeptTiles, /*kWithValues=*/false>([&](int tile, const TileRows& logits) {
        memcpy(&kept_.tile[tile], &logits, sizeof(logits));
      });
      tiles_.StartValues();
    }
    Measure();
    // The bound holds by itself (ThresholdSearch). It is here so that a fault of the search, or of
    // its compiler, makes wrong rows, which tests find, and not a kernel that never ends.
    for (int round = 0; round < kMostRounds && IsSearching(); ++round) Count();
    Attend();
  }

 private:
  static constexpr bool kKept = kKeptTiles > 0;
  static constexpr bool kEuclidean = Job::kNear == Near::kEuclidean;
  static constexpr int kGuesses = kKept ? 1 : 3;  // in a round

  template <int kMostTiles, bool kWithValues, class Visit>
  __device__ void Walk(const Visit& visit) {
    tiles_.template Walk<kMostTiles, kWithValues>(
        [&](int tile, const T* keys) {
          if constexpr (kEuclidean) MakeNorms(tile, keys);
        },
        visit);
  }

  // A quad to a key. Those that there are none of, and those with a NaN, have norm 0: what their
  // products are says the rest.
  __device__ void MakeNorms(int tile, const T* keys) {
    constexpr int kVector = cuda::kVectorCount<T>;
    const int padded = tiles_.PaddedKeysIn(tile);
    for (int j = static_cast<int>(threadIdx.x) / 4; j < padded; j += blockDim.x / 4) {
      const T* key = keys + j * tiles_.layout().KeyRow();
      float squares = 0.0f;
      for (int c = cuda::LaneId() % 4 * kVector; c < tiles_.layout().depth; c += 4 * kVector) {
        const cuda::Vector<T> x = cuda::VectorAt(key + c);
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          squares = fmaf(static_cast<float>(x.at[i]), static_cast<float>(x.at[i]), squares);
        }
      }
      squares = cuda::QuadSum(squares);
      if (cuda::LaneId() % 4 == 0) NormsOf(tile)[j] = squares == squares ? 0.5f * squares : 0.0f;
    }
    __syncthreads();
  }
  __device__ float* NormsOf(int tile) const {
    return norms_ + (kKept ? tile * cuda::kTileKeys : 0);
  }

  // Calls visit(tile, logits) for all tiles, of warps that have queries.
  template <class Visit>
  __device__ void ForEachTile(const Visit& visit) {
    if constexpr (kKept) {
      if (tiles_.IsIdle()) return;
      const int tiles = tiles_.Tiles();
#pragma unroll
      for (int tile = 0; tile < kKeptTiles; ++tile) {
        if (tile < tiles) visit(tile, kept_.tile[tile]);
      }
    } else {
      Walk<0, /*kWithValues=*/false>(visit);
    }
  }

  // Calls visit(n) for those n of a tile's logits where there are keys.
  template <class Visit>
  __device__ void ForEachColumn(int tile, const Visit& visit) const {
    const int keys = tiles_.KeysIn(tile);
#pragma unroll
    for (int n = 0; n < cuda::kTileKeys / 8; n += 2) {
      if (8 * n < keys) {
        visit(n);
        visit(n + 1);
      }
    }
  }

  // How near the keys of the tile's columns ColumnOf(n, 0) and ColumnOf(n, 1) are to row i's query.
  struct Pair {
    float at[2];
  };
  __device__ Pair Nearness(int tile, const TileRows& logits, int n, int i) const {
    Pair near = {{logits[n][2 * i], logits[n][2 * i + 1]}};
    if constexpr (kEuclidean) {
      const float* norms = NormsOf(tile) + cuda::ColumnOf(n, 0);
      near.at[0] -= norms[0];
      near.at[1] -= norms[1];
    }
    return near;
  }

  // Calls visit(i, s) for all of the lane's rows i and how near their keys are.
  template <class Visit>
  __device__ void ForEachKey(const Visit& visit) {
    ForEachTile([&](int tile, const TileRows& logits) {
      ForEachColumn(tile, [&](int n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const Pair near = Nearness(tile, logits, n, i);
          visit(i, near.at[0]);
          visit(i, near.at[1]);
        }
      });
    });
  }

  __device__ void Measure() {
    Moments row[2];
    ForEachKey([&](int i, float s) {
      if (fabsf(s) < INFINITY) {
        ++row[i].count;
        row[i].sum += s;
        row[i].squares = fmaf(s, s, row[i].squares);
        row[i].smallest = fminf(row[i].smallest, s);
        row[i].largest = fmaxf(row[i].largest, s);
      } else if (!(s < 0.0f)) {
        row[i].largest = INFINITY;
      }
    });
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Moments all = {cuda::QuadSum(row[i].count), cuda::QuadSum(row[i].sum),
                     cuda::QuadSum(row[i].squares), cuda::QuadMin(row[i].smallest),
                     cuda::QuadMax(row[i].largest)};
      if (all.largest == INFINITY)
        all.count = 0;  // a NaN or +inf: nothing that is selected matters
      search_[i] = ThresholdSearch(job_.topk, all);
    }
  }

  // Whether the warp is; where all warps walk together, whether one of them is.
  __device__ bool IsSearching() const {
    const bool searching = !search_[0].Done() || !search_[1].Done();
    if constexpr (kKept) {
      return __any_sync(cuda::kAllLanes, searching);
    } else {
      return __syncthreads_or(searching) != 0;
    }
  }

  // A round of the search.
  __device__ void Count() {
    Neighbours found[2][kGuesses];
    float guess[2][kGuesses];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int g = 0; g < kGuesses; ++g) guess[i][g] = search_[i].Guess(g - kGuesses / 2);
    }
    ForEachKey([&](int i, float s) {
#pragma unroll
      for (int g = 0; g < kGuesses; ++g) found[i][g].Count(s, guess[i][g]);
    });
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int g = 0; g < kGuesses; ++g) {
        found[i][g] = {cuda::QuadSum(found[i][g].count), cuda::QuadMin(found[i][g].above),
                       cuda::QuadMax(found[i][g].below)};
      }
      if (!search_[i].Done()) search_[i].Observe(found[i]);
    }
  }

  __device__ void Attend() {
    cuda::OnlineSoftmax weights({});
    int equal_before[2] = {};
    const auto weigh = [&](int tile, TileRows& logits) {
      Select(tile, logits, equal_before);
      weights.Weigh(logits, tiles_.KeysIn(tile), tiles_.output());
    };
    if constexpr (kKept) {
      tiles_.template WalkValues<kKeptTiles>([&](int tile) -> TileRows& {
        weigh(tile, kept_.tile[tile]);
        return kept_.tile[tile];
      });
    } else {
      Walk<0, /*kWithValues=*/true>(weigh);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) tiles_.Store(i, weights.Factor(i));
  }

  // Makes the logits of what walks brought, -inf where a key is left out. `equal_before`: how many
  // keys of earlier tiles are as near as the threshold; counted on.
  __device__ void Select(int tile, TileRows& logits, int (&equal_before)[2]) const {
    const typename Job::Sequence::Row rows[2] = {tiles_.RowOf(0), tiles_.RowOf(1)};
    const bool ties =
        __any_sync(cuda::kAllLanes, search_[0].Ties() != kAllTies || search_[1].Ties() != kAllTies);
    ForEachColumn(tile, [&](int n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Pair near = Nearness(tile, logits, n, i);
        Ranks equal = {{0, 0}};
        if (ties) equal = RanksOfEqual(near, search_[i].Threshold(), equal_before[i]);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& logit = logits[n][2 * i + c];
          if (IsLeftOut(near.at[c], search_[i].Threshold(), equal.at[c], search_[i].Ties())) {
            logit = -INFINITY;
          } else if constexpr (kEuclidean) {
            const auto column =
                tiles_.sequence().ColumnOf(tile * cuda::kTileKeys + cuda::ColumnOf(n, c));
            logit = near.at[c] < INFINITY ? tiles_.sequence().LogitOf(logit, rows[i], column) : NAN;
          }
        }
      }
    });
  }

  // By how many keys of a lower index that equal the threshold each of a lane's two is preceded. A
  // row's lanes hold neighbouring pairs of columns.
  struct Ranks {
    int at[2];
  };
  __device__ static Ranks RanksOfEqual(const Pair& near, float threshold, int& before) {
    const int quad = cuda::LaneId() / 4 * 4;
    const unsigned earlier = (1u << (cuda::LaneId() % 4)) - 1;
    unsigned equal[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      equal[c] = __ballot_sync(cuda::kAllLanes, near.at[c] == threshold) >> quad & 0xFu;
    }
    const int first = before + __popc(equal[0] & earlier) + __popc(equal[1] & earlier);
    before += __popc(equal[0]) + __popc(equal[1]);
    return {{first, first + (near.at[0] == threshold ? 1 : 0)}};
  }

  struct Kept {
    TileRows tile[kKept ? kKeptTiles : 1];
  };
  struct Nothing {};

  const Job& job_;
  cuda::TileBlock<T, Job, kDepth> tiles_;
  float* const norms_;
  std::conditional_t<kKept, Kept, Nothing> kept_;
  ThresholdSearch search_[2];
};

}  // namespace fovea::kernels::knn
