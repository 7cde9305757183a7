// Products of one warp: 16 rows times tiles in shared memory, the sums in registers as
// mma.m16n8k16 leaves them (ptx.h). bf16 and fp16 on tensor cores; fp32 by FMA into the same
// registers (TF32 would not keep fp32's accuracy).
//
// Thread `lane` holds, of a 16 x 8n matrix, rows RowOf(0) and RowOf(1) at columns ColumnOf(n, 0)
// and ColumnOf(n, 1): sum[n][2 * i + c].
#pragma once
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/ptx.h"

namespace fovea::kernels::cuda {

template <class T>
inline constexpr bool kOnTensorCores = !std::is_same_v<T, float>;

inline constexpr int kWarpRows = 16;

// Rows in shared memory begin kRowPad elements further apart than they are long, so that those of a
// fragment fall into different banks.
template <class T>
inline constexpr int kRowPad = 16 / sizeof(T);

__device__ __forceinline__ int LaneId() { return static_cast<int>(threadIdx.x % 32); }
__device__ __forceinline__ int RowOf(int i) { return LaneId() / 4 + 8 * i; }
__device__ __forceinline__ int ColumnOf(int n, int c) { return 8 * n + LaneId() % 4 * 2 + c; }

// The left operand: 16 rows in shared memory, anywhere. Rows are 16-byte aligned.
template <class T>
class LeftRows {
 public:
  // row(i): where row i begins.
  template <class Row>
  __device__ explicit LeftRows(const Row& row) {
    if constexpr (kOnTensorCores<T>) {
      rows_[0] = row(LaneId() % 16) + LaneId() / 16 * 8;
    } else {
      rows_[0] = row(RowOf(0));
      rows_[1] = row(RowOf(1));
    }
  }

  // Columns [k, k + 16), for tensor cores.
  __device__ void Load(int k, uint32_t (&a)[4]) const { LoadMatrices(rows_[0] + k, a); }
  // For FMAs.
  __device__ const T* Row(int i) const { return rows_[i]; }

 private:
  const T* rows_[2];
};

// A left operand of kDepth columns that stays in registers.
template <class T, int kDepth>
class KeptLeftRows {
 public:
  template <class Row>
  __device__ void Keep(const Row& row) {
    const LeftRows<T> rows(row);
#pragma unroll
    for (int i = 0; i < kDepth / 16; ++i) rows.Load(16 * i, kept_[i]);
  }
  __device__ void Load(int k, uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = kept_[k / 16][i];
  }

 private:
  uint32_t kept_[kDepth / 16][4];
};

// sum += left * tile^T: column n of the sum belongs to row n of the tile. kDepth: the depth, or 0
// where only `depth` tells. Only the first `columns` of the sum are wanted.
template <int kDepth, class T, class Left, int kN>
__device__ __forceinline__ void MultiplyByRows(const Left& left, const T* tile, int tile_row,
                                               int depth, int columns, float (&sum)[kN][4]) {
  if constexpr (kDepth > 0) depth = kDepth;
  if constexpr (kOnTensorCores<T>) {
    const int lane = LaneId();
    const T* const right = tile + (lane / 16 * 8 + lane % 8) * tile_row + lane / 8 % 2 * 8;
#pragma unroll kDepth> 0 ? kDepth / 16 : 1
    for (int k = 0; k < depth; k += 16) {
      uint32_t a[4];
      left.Load(k, a);
#pragma unroll
      for (int n = 0; n < kN; n += 2) {
        if (8 * n < columns) {
          uint32_t b[4];
          LoadMatrices(right + 8 * n * tile_row + k, b);
          MultiplyFragments<T>(a, b[0], b[1], sum[n]);
          MultiplyFragments<T>(a, b[2], b[3], sum[n + 1]);
        }
      }
    }
  } else {
    for (int k = 0; k < depth; k += 4) {
      const Vector<float> a[2] = {VectorAt(left.Row(0) + k), VectorAt(left.Row(1) + k)};
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        if (8 * n < columns) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const Vector<float> b = VectorAt(tile + ColumnOf(n, c) * tile_row + k);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              sum[n][c] = fmaf(a[0].at[i], b.at[i], sum[n][c]);
              sum[n][2 + c] = fmaf(a[1].at[i], b.at[i], sum[n][2 + c]);
            }
          }
        }
      }
    }
  }
}

// Floats between the rows of MultiplyWeights' scratch memory.
template <int kKeys>
inline constexpr int kWeightRow = kKeys + 4;

// sum += weights * tile, with the weights of one tile's keys as MultiplyByRows leaves its sum,
// rounded to T. Only the first `keys` are not zero. `scratch`: for fp32, 16 rows of the warp's own.
template <class T, int kKeyN, int kN>
__device__ __forceinline__ void MultiplyWeights(const float (&weights)[kKeyN][4], const T* tile,
                                                int tile_row, int keys, float* scratch,
                                                float (&sum)[kN][4]) {
  if constexpr (kOnTensorCores<T>) {
    const int lane = LaneId();
    const T* const right = tile + lane % 16 * tile_row + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < kKeyN; k += 2) {
      if (8 * k < keys) {
        const uint32_t a[4] = {Pack<T>(weights[k][0], weights[k][1]),
                               Pack<T>(weights[k][2], weights[k][3]),
                               Pack<T>(weights[k + 1][0], weights[k + 1][1]),
                               Pack<T>(weights[k + 1][2], weights[k + 1][3])};
#pragma unroll
        for (int n = 0; n < kN; n += 2) {
          uint32_t b[4];
          LoadMatricesTransposed(right + 8 * k * tile_row + 8 * n, b);
          MultiplyFragments<T>(a, b[0], b[1], sum[n]);
          MultiplyFragments<T>(a, b[2], b[3], sum[n + 1]);
        }
      }
    }
  } else {
    constexpr int kRow = kWeightRow<8 * kKeyN>;
    __syncwarp();
#pragma unroll
    for (int n = 0; n < kKeyN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scratch[RowOf(i / 2) * kRow + ColumnOf(n, i % 2)] = weights[n][i];
      }
    }
    __syncwarp();
    for (int k = 0; k < keys; ++k) {
      const float a[2] = {scratch[RowOf(0) * kRow + k], scratch[RowOf(1) * kRow + k]};
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sum[n][i] = fmaf(a[i / 2], tile[k * tile_row + ColumnOf(n, i % 2)], sum[n][i]);
        }
      }
    }
  }
}

// Starts copying rows into shared memory, as [rows, padded_columns] with zeros past `columns` and
// where row(i) is null. `vectors`: rows are 16-byte aligned and `columns` whole vectors; else this
// waits for each element.
template <class T, class Row>
__device__ __forceinline__ void CopyRows(const Row& row, int rows, int columns, int padded_columns,
                                         bool vectors, T* to, int to_row) {
  constexpr int kVector = kVectorCount<T>;
  const int threads = static_cast<int>(blockDim.x);
  if (vectors) {
    const int per_row = padded_columns / kVector;
    for (int i = static_cast<int>(threadIdx.x); i < rows * per_row; i += threads) {
      const int r = i / per_row;
      const int c = (i - r * per_row) * kVector;
      const T* from = row(r);
      T* const place = to + r * to_row + c;
      if (from != nullptr && c < columns) {
        CopyAsync(place, from + c);
      } else {
        *reinterpret_cast<Vector<uint32_t>*>(place) = Vector<uint32_t>{};
      }
    }
  } else {
    for (int r = static_cast<int>(threadIdx.x) / 32; r < rows; r += threads / 32) {
      const T* from = row(r);
      for (int c = LaneId(); c < padded_columns; c += 32) {
        to[r * to_row + c] = from != nullptr && c < columns ? from[c] : T(0.0f);
      }
    }
  }
}

}  // namespace fovea::kernels::cuda
