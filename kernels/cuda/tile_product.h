// Products of tiles in shared memory by one thread block, fp32 accumulation: tensor cores for bf16
// and fp16, FMAs for fp32 (TF32 would not keep fp32's accuracy).
#pragma once
#include <mma.h>

#include <type_traits>

namespace fovea::kernels::cuda {

// Matrices' rows begin kRowPad elements further apart than they are long, so that the rows of a
// fragment fall into different banks; keeps what nvcuda::wmma wants (32-byte fragments).
template <class T>
inline constexpr int kRowPad = 16 / sizeof(T);

inline constexpr int kFragment = 16;  // rows and columns of a tensor core's operand

// C[m, n] (+)= sum over k of A[m, k] * B(k, n) with A [16, depth] and C [16, columns] row-major;
// B(k, n) = b[n * b_row + k] if kTransposedB, b[k * b_row + n] if not. `columns` and `depth` are
// multiples of 16. Warps take 16 columns at a time; the caller synchronises before and after.
template <class T, bool kTransposedB, bool kAccumulate>
__device__ void MultiplyTiles(const T* a, int a_row, const T* b, int b_row, int depth, int columns,
                              float* c, int c_row) {
  if constexpr (std::is_same_v<T, float>) {
    for (int i = threadIdx.x; i < kFragment * columns; i += blockDim.x) {
      const int m = i / columns;
      const int n = i % columns;
      float sum = kAccumulate ? c[m * c_row + n] : 0.0f;
      for (int k = 0; k < depth; ++k) {
        sum = fmaf(a[m * a_row + k], kTransposedB ? b[n * b_row + k] : b[k * b_row + n], sum);
      }
      c[m * c_row + n] = sum;
    }
  } else {
    namespace wmma = nvcuda::wmma;
    using Order = std::conditional_t<kTransposedB, wmma::col_major, wmma::row_major>;
    const int warps = blockDim.x / 32;
    for (int n = threadIdx.x / 32 * kFragment; n < columns; n += warps * kFragment) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
      if constexpr (kAccumulate) {
        wmma::load_matrix_sync(sum, c + n, c_row, wmma::mem_row_major);
      } else {
        wmma::fill_fragment(sum, 0.0f);
      }
      for (int k = 0; k < depth; k += kFragment) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, T, Order> right;
        wmma::load_matrix_sync(left, a + k, a_row);
        wmma::load_matrix_sync(right, kTransposedB ? b + n * b_row + k : b + k * b_row + n, b_row);
        wmma::mma_sync(sum, left, right, sum);
      }
      wmma::store_matrix_sync(c + n, sum, c_row, wmma::mem_row_major);
    }
  }
}

// Copies rows [first, first + rows) of a strided matrix with `columns` contiguous columns into
// shared memory, as [padded_rows, padded_columns] with zeros outside. A warp to a row.
template <class T>
__device__ void LoadTile(const T* from, long long stride, int rows, int columns, int padded_rows,
                         int padded_columns, T* to, int to_row) {
  const int warps = blockDim.x / 32;
  for (int r = threadIdx.x / 32; r < padded_rows; r += warps) {
    for (int c = threadIdx.x % 32; c < padded_columns; c += 32) {
      to[r * to_row + c] = r < rows && c < columns ? from[r * stride + c] : T(0.0f);
    }
  }
}

}  // namespace fovea::kernels::cuda
