#include "kernels/simd/isa.h"

#include <ATen/Version.h>
#include <ATen/cpu/Utils.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <fstream>
#include <string>

namespace fovea::kernels::simd {
namespace {

std::atomic<Isa> current{BestIsa()};

// As ATen names it.
bool HasFeature(const char* name) {
  const auto facts = at::cpu::get_cpu_capabilities();
  const auto found = facts.find(name);
  return found != facts.end() && found->second.isBool() && found->second.toBool();
}

}  // namespace

Isa BestIsa() {
  static const Isa best = [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    // What Highway assumes of its targets HWY_AVX2 and HWY_AVX3, more than ATen asks.
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                      __builtin_cpu_supports("f16c") && __builtin_cpu_supports("aes") &&
                      __builtin_cpu_supports("pclmul");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw");
    const std::string aten = at::get_cpu_capability();
    if (avx512 && aten == "AVX512") return Isa::kAvx512;
    if (avx2 && (aten == "AVX512" || aten == "AVX2")) return Isa::kAvx2;
#endif
    return Isa::kNone;
  }();
  return best;
}

ScopedIsa::ScopedIsa(Isa isa) : previous_(current.load()) {
  TORCH_CHECK(isa <= BestIsa(), IsaName(isa), " was asked for, but ", IsaName(BestIsa()),
              " is the best this machine has");
  current.store(isa);
}

ScopedIsa::~ScopedIsa() { current.store(previous_); }

Isa CurrentIsa() { return current.load(std::memory_order_relaxed); }

bool HasAmx() {
  static const bool has = HasFeature("amx_bf16");
  return has;
}

bool HasAmxInt8() {
  static const bool has = HasFeature("amx_int8");
  return has;
}

bool HasBf16Instructions() {
  static const bool has = HasFeature("avx512_bf16");
  return has;
}

bool HasVnni() {
  static const bool has = HasFeature("avx512_vnni");
  return has && CurrentIsa() == Isa::kAvx512;
}

const std::string& ProcessorName() {
  static const std::string name = []() -> std::string {
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);) {
      if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
    }
    return "unknown";
  }();
  return name;
}

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kNone:
      return "none";
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kAvx512:
      return "AVX-512";
  }
  TORCH_INTERNAL_ASSERT(false, "no such instruction set");
}

}  // namespace fovea::kernels::simd
