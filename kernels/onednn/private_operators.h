// What LibTorch 2.11 has of oneDNN and keeps to itself, called through the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace fovea::kernels::onednn {

// mkldnn::`name` and the like. Throws c10::Error where LibTorch has none.
template <typename Signature>
c10::TypedOperatorHandle<Signature> Operator(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

// Whether this machine's oneDNN runs layers in that type on the CPU.
bool Supports(c10::ScalarType type);

// Of a weight in oneDNN's own layout, whose tensor is opaque.
int64_t BytesOf(const at::Tensor& packed);

}  // namespace fovea::kernels::onednn
