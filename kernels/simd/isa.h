// Which vector instructions the vectorised kernels use on this machine, and how their per-target
// code is chosen among.
//
// A kernel is written once with Highway and compiled once per target (simd/targets.h); nothing
// is built for the machine that builds. The choice follows ATen's own, so ATEN_CPU_CAPABILITY=avx2
// lowers both, and a comparison with ATen stays fair.
#pragma once
#include <string>
#include <string_view>

namespace fovea::kernels::simd {

enum class Isa { kNone, kAvx2, kAvx512 };

// The best one that this processor and ATEN_CPU_CAPABILITY allow. kNone: the vectorised kernels do
// not run here.
Isa BestIsa();

// Forces `isa`, which must not be above BestIsa(), for this object's lifetime in all threads; for
// tests and benchmarks.
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  Isa previous_;
};

// What kernels choose by: BestIsa() unless a ScopedIsa says otherwise.
Isa CurrentIsa();

// Whether the processor, and the system it runs, has AMX tiles for bf16.
bool HasAmx();

// The same of AMX for 8-bit integers.
bool HasAmxInt8();

// Whether the processor has AVX-512's instructions for bf16, conversions among them.
bool HasBf16Instructions();

// Whether CurrentIsa() is AVX-512 and the processor has its products of 8-bit integers (VNNI).
bool HasVnni();

// "none", "AVX2" or "AVX-512".
std::string_view IsaName(Isa isa);

// As /proc/cpuinfo names it, or "unknown".
const std::string& ProcessorName();

}  // namespace fovea::kernels::simd
