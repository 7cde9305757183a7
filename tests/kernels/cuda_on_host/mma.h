// <mma.h> for runtime.h: 16x16x16 fragments. Each thread of a warp holds the whole fragment.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major };

template <class Use, int, int, int, class T, class Order = row_major>
struct fragment {
  float at[16][16];
};

// What the hardware asks for, and does not check.
template <class T>
void CheckAlignment(const T* from, unsigned stride) {
  if (reinterpret_cast<uintptr_t>(from) % 32 != 0 || stride * sizeof(T) % 16 != 0) {
    throw std::logic_error("a fragment is misaligned");
  }
}

template <class Use, class T, class Order>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Order>& f, const T* from, unsigned stride) {
  CheckAlignment(from, stride);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      f.at[i][j] = static_cast<float>(std::is_same_v<Order, row_major> ? from[i * stride + j]
                                                                       : from[j * stride + i]);
    }
  }
}

inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& f, const float* from,
                             unsigned stride, layout_t) {
  CheckAlignment(from, stride);
  for (int i = 0; i < 16; ++i) std::memcpy(f.at[i], from + i * stride, sizeof(f.at[i]));
}

inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& f,
                              unsigned stride, layout_t) {
  CheckAlignment(to, stride);
  __syncwarp();
  for (int i = 0; i < 16; ++i) std::memcpy(to + i * stride, f.at[i], sizeof(f.at[i]));
  __syncwarp();
}

inline void fill_fragment(fragment<accumulator, 16, 16, 16, float>& f, float value) {
  for (auto& row : f.at) {
    for (float& x : row) x = value;
  }
}

template <class A, class B>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d, const A& a, const B& b,
              const fragment<accumulator, 16, 16, 16, float>& c) {
  fragment<accumulator, 16, 16, 16, float> sum = c;
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 16; ++j) sum.at[i][j] += a.at[i][k] * b.at[k][j];
    }
  }
  d = sum;
}

}  // namespace nvcuda::wmma
