// kernels/cuda/ptx.h for runtime.h: the same instructions, as the PTX manual defines them.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace fovea::kernels::cuda {

inline void CheckAlignment(const void* at) {
  if (reinterpret_cast<uintptr_t>(at) % 16 != 0) throw std::logic_error("16 bytes are misaligned");
}

template <bool kTransposed>
void LoadMatricesOfWarp(const void* row, uint32_t (&r)[4]) {
  CheckAlignment(row);
  const auto loaded = cuda_on_host::Block::Current().Exchange(
      static_cast<const uint16_t*>(row), [](const auto& row_of, unsigned lane) {
        const unsigned g = lane / 4, t = lane % 4;
        std::array<uint32_t, 4> words;
        for (unsigned i = 0; i < 4; ++i) {
          const uint32_t low = kTransposed ? row_of(8 * i + 2 * t)[g] : row_of(8 * i + g)[2 * t];
          const uint32_t high =
              kTransposed ? row_of(8 * i + 2 * t + 1)[g] : row_of(8 * i + g)[2 * t + 1];
          words[i] = low | high << 16;
        }
        return words;
      });
  std::memcpy(r, loaded.data(), sizeof(r));
}

inline void LoadMatrices(const void* row, uint32_t (&r)[4]) { LoadMatricesOfWarp<false>(row, r); }
inline void LoadMatricesTransposed(const void* row, uint32_t (&r)[4]) {
  LoadMatricesOfWarp<true>(row, r);
}

template <class T>
float Unpack(uint32_t pair, unsigned which) {
  const uint16_t bits = static_cast<uint16_t>(pair >> (16 * which));
  T x;
  std::memcpy(&x, &bits, sizeof(x));
  return static_cast<float>(x);
}

template <class T>
uint32_t Pack(float low, float high) {
  const T pair[2] = {T(low), T(high)};
  uint32_t bits;
  std::memcpy(&bits, pair, sizeof(bits));
  return bits;
}

template <class T>
void MultiplyFragments(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&c)[4]) {
  struct Operands {
    uint32_t a[4], b[2];
  };
  const auto product = cuda_on_host::Block::Current().Exchange(
      Operands{{a[0], a[1], a[2], a[3]}, {b0, b1}}, [](const auto& of, unsigned lane) {
        std::array<float, 4> sums{};
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned k = 0; k < 16; ++k) {
          // Element k of a row or column is with the quad's thread k % 8 / 2, in its half k % 2.
          const Operands left = of(4 * g + k % 8 / 2);
          for (unsigned column = 0; column < 2; ++column) {
            const Operands right = of(4 * (2 * t + column) + k % 8 / 2);
            const float b = Unpack<T>(right.b[k / 8], k % 2);
            for (unsigned half = 0; half < 2; ++half) {
              sums[2 * half + column] += Unpack<T>(left.a[k / 8 * 2 + half], k % 2) * b;
            }
          }
        }
        return sums;
      });
  for (unsigned i = 0; i < 4; ++i) c[i] += product[i];
}

inline void CopyAsync(void* shared, const void* global) {
  CheckAlignment(shared);
  CheckAlignment(global);
  cuda_on_host::Block::Current().CopyLater(shared, global, 16);
}
inline void CommitCopies() { cuda_on_host::Block::Current().CommitCopies(); }
template <int kPending>
void WaitForCopies() {
  cuda_on_host::Block::Current().WaitForCopies(kPending);
}

}  // namespace fovea::kernels::cuda
