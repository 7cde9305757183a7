// Where the tokens of an attention operator lie in memory, as its CUDA kernels are told.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>

#include "kernels/cuda/host_device.h"

namespace fovea::kernels::cuda {

// A tensor [batch, heads, tokens, head_dim] with a contiguous last dimension. Strides in elements.
template <class T>
struct Tokens {
  T* data;
  int64_t batch, head, token;

  FOVEA_HOST_DEVICE T* Of(int64_t b, int64_t h) const { return data + b * batch + h * head; }
};

// A map [batch, heads, height, width, head_dim], likewise.
template <class T>
struct Map {
  T* data;
  int64_t batch, head, row, column;

  FOVEA_HOST_DEVICE T* Of(int64_t b, int64_t h) const { return data + b * batch + h * head; }
};

// fp32, added to the scaled logits; strides of broadcast dimensions are 0.
struct LogitBias {
  const float* data = nullptr;  // null: none
  int64_t batch = 0, head = 0, query = 0, key = 0;

  FOVEA_HOST_DEVICE const float* Row(int64_t b, int64_t h, int64_t q) const {
    return data == nullptr ? nullptr : data + b * batch + h * head + q * query;
  }
};

template <class T>
const T* ReadOnly(const at::Tensor& t) {
  return static_cast<const T*>(t.const_data_ptr());
}
template <class T>
T* Writable(const at::Tensor& t) {
  return static_cast<T*>(t.mutable_data_ptr());
}

template <class T>
Tokens<const T> TokensOf(const at::Tensor& t) {
  return {ReadOnly<T>(t), t.stride(0), t.stride(1), t.stride(2)};
}
template <class T>
Tokens<T> WritableTokensOf(const at::Tensor& t) {
  return {Writable<T>(t), t.stride(0), t.stride(1), t.stride(2)};
}

template <class T>
Map<const T> MapOf(const at::Tensor& t) {
  return {ReadOnly<T>(t), t.stride(0), t.stride(1), t.stride(2), t.stride(3)};
}
template <class T>
Map<T> WritableMapOf(const at::Tensor& t) {
  return {Writable<T>(t), t.stride(0), t.stride(1), t.stride(2), t.stride(3)};
}

// Of a bias [B, H, Nq, Nk].
inline LogitBias LogitBiasOf(const std::optional<at::Tensor>& bias) {
  if (!bias) return {};
  return {bias->const_data_ptr<float>(), bias->stride(0), bias->stride(1), bias->stride(2),
          bias->stride(3)};
}

// Whether each token of all tensors can be read and written 16 bytes at a time.
inline bool AreVectorAligned(std::initializer_list<std::reference_wrapper<const at::Tensor>> all) {
  constexpr int64_t kBytes = 16;
  for (const at::Tensor& t : all) {
    const int64_t size = t.element_size();
    if (reinterpret_cast<uintptr_t>(t.const_data_ptr()) % kBytes != 0) return false;
    if (t.size(-1) * size % kBytes != 0) return false;
    for (int64_t i = 0; i + 1 < t.dim(); ++i) {
      if (t.size(i) > 1 && t.stride(i) * size % kBytes != 0) return false;
    }
  }
  return true;
}

}  // namespace fovea::kernels::cuda
