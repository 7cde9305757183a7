// Neighbouring elements in memory that are read and written at once.
#pragma once

namespace fovea::kernels::cuda {

// kCount: a power of two. 16 bytes are the most that one instruction moves.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Elements {
  T at[kCount];
};

template <int kCount, class T>
__device__ __forceinline__ const Elements<T, kCount>& ElementsAt(const T* at) {
  return *reinterpret_cast<const Elements<T, kCount>*>(at);
}
template <int kCount, class T>
__device__ __forceinline__ Elements<T, kCount>& ElementsAt(T* at) {
  return *reinterpret_cast<Elements<T, kCount>*>(at);
}

// As many as fill 16 bytes.
template <class T>
inline constexpr int kVectorCount = 16 / static_cast<int>(sizeof(T));
template <class T>
using Vector = Elements<T, kVectorCount<T>>;
template <class T>
__device__ __forceinline__ const Vector<T>& VectorAt(const T* at) {
  return ElementsAt<kVectorCount<T>>(at);
}

}  // namespace fovea::kernels::cuda
