// How nvcc names instances of kernel templates.
#pragma once
#include <cxxabi.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

namespace fovea::kernels::cuda_on_host {

// A type as it is called in device code, where elements are CUDA's bf16 and fp16.
template <class T>
std::string TypeName() {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, &status), &std::free);
  std::string name = demangled.get();
  const std::pair<std::string_view, std::string_view> elements[] = {
      {"c10::BFloat16", "__nv_bfloat16"}, {"c10::Half", "__half"}};
  for (const auto& [host, device] : elements) {
    for (size_t at; (at = name.find(host)) != std::string::npos;) {
      name.replace(at, host.size(), device);
    }
  }
  return name;
}

inline std::string ArgumentName(const std::string& type) { return type; }
inline std::string ArgumentName(int value) { return std::to_string(value); }

// KernelName("Multiply", TypeName<T>(), 8): "Multiply<float, 8>".
template <class First, class... Others>
std::string KernelName(const std::string& kernel, const First& first, const Others&... others) {
  return kernel + "<" + ArgumentName(first) + ((", " + ArgumentName(others)) + ... + ">");
}

}  // namespace fovea::kernels::cuda_on_host
