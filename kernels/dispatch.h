// Which implementation of an operator runs.
//
// Every operator has a reference, which runs anywhere and is its definition, and may have a fast
// implementation for the CPU and one for CUDA. The fast one of the tensors' device runs where it
// takes their type, the reference elsewhere. The environment variable
//   FOVEA_FORCE_KERNEL=reference|cpu|cuda
// (read once) overrules this for every operator: then a call that the named implementation cannot
// take is an error, never quietly somebody else's.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string_view>

namespace fovea::kernels {

enum class Implementation { kReference, kCpu, kCuda };

// "reference", "cpu" or "cuda", as in FOVEA_FORCE_KERNEL.
std::string_view ImplementationName(Implementation implementation);

// What the fast implementations of an operator take on this machine and in this build: facts, known
// before any call.
struct Capabilities {
  struct Fast {
    c10::ArrayRef<c10::ScalarType> types;  // empty: there is no such implementation here,
    std::string_view why;                  // for this reason
  };
  std::string_view op;
  Fast cpu;
  Fast cuda;
};

// What an implementation has whose CPU code is vectorised with simd/: fp32 and bf16, given AVX2.
Capabilities::Fast VectorisedOnCpu();

// What an implementation has that is written in CUDA: cuda/types.h's types, in builds with nvcc.
Capabilities::Fast WrittenInCuda();

// The implementation that runs for tensors of `type` on `device`.
// Throws c10::Error where the forced one cannot, and where FOVEA_FORCE_KERNEL names none.
Implementation ChooseImplementation(const Capabilities& capabilities, c10::DeviceType device,
                                    c10::ScalarType type);

// The one that is forced; a call then runs nobody else's code, torch's neither.
std::optional<Implementation> ForcedImplementation();

// Forces an implementation for this object's lifetime, over the environment's, in all threads; for
// tests and benchmarks. Not to be nested from several threads.
class ScopedForcedImplementation {
 public:
  explicit ScopedForcedImplementation(std::optional<Implementation> forced);
  ~ScopedForcedImplementation();
  ScopedForcedImplementation(const ScopedForcedImplementation&) = delete;
  ScopedForcedImplementation& operator=(const ScopedForcedImplementation&) = delete;

 private:
  int previous_;
};

// A call of a CUDA implementation, which builds without nvcc lack; their WrittenInCuda() says so,
// and so none is ever chosen there.
#ifdef FOVEA_KERNELS_CUDA
#define FOVEA_CUDA_ONLY(call) call
#else
#define FOVEA_CUDA_ONLY(call) TORCH_INTERNAL_ASSERT(false, "built without CUDA")
#endif

}  // namespace fovea::kernels
