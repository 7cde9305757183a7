#include "kernels/dispatch.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "kernels/cuda/types.h"
#include "kernels/simd/isa.h"

namespace fovea::kernels {
namespace {

constexpr Implementation kAll[] = {Implementation::kReference, Implementation::kCpu,
                                   Implementation::kCuda};
constexpr int kFollowEnvironment = -2;
constexpr int kNotForced = -1;

std::atomic<int> scoped_force{kFollowEnvironment};

std::optional<Implementation> ForcedByEnvironment() {
  // A throw leaves the static unset, so that every call reports the bad value.
  static const std::optional<Implementation> forced = []() -> std::optional<Implementation> {
    const char* name = std::getenv("FOVEA_FORCE_KERNEL");
    if (name == nullptr || *name == '\0') return std::nullopt;
    for (Implementation implementation : kAll) {
      if (name == ImplementationName(implementation)) return implementation;
    }
    TORCH_CHECK(false, "FOVEA_FORCE_KERNEL must be reference, cpu or cuda, got \"", name, "\"");
  }();
  return forced;
}

bool Contains(c10::ArrayRef<c10::ScalarType> types, c10::ScalarType type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

std::string TypeNames(c10::ArrayRef<c10::ScalarType> types) {
  std::string names;
  for (c10::ScalarType type : types) {
    if (!names.empty()) names += ", ";
    names += c10::toString(type);
  }
  return names;
}

void CheckForcedCanRun(const Capabilities& capabilities, Implementation forced,
                       c10::DeviceType device, c10::ScalarType type) {
  const bool cuda = forced == Implementation::kCuda;
  const Capabilities::Fast& fast = cuda ? capabilities.cuda : capabilities.cpu;
  const std::string_view name = ImplementationName(forced);
  TORCH_CHECK(!fast.types.empty(), capabilities.op, ": FOVEA_FORCE_KERNEL=", name,
              ", but there is no ", name, " implementation here: ", fast.why);
  TORCH_CHECK(device == (cuda ? c10::kCUDA : c10::kCPU), capabilities.op,
              ": FOVEA_FORCE_KERNEL=", name, ", but its tensors are on ",
              c10::DeviceTypeName(device, /*lower_case=*/true));
  TORCH_CHECK(Contains(fast.types, type), capabilities.op, ": FOVEA_FORCE_KERNEL=", name,
              ", but the ", name, " implementation takes ", TypeNames(fast.types), ", got ",
              c10::toString(type));
}

}  // namespace

std::optional<Implementation> ForcedImplementation() {
  const int scoped = scoped_force.load(std::memory_order_relaxed);
  if (scoped == kFollowEnvironment) return ForcedByEnvironment();
  if (scoped == kNotForced) return std::nullopt;
  return static_cast<Implementation>(scoped);
}

Capabilities::Fast VectorisedOnCpu() {
  static constexpr c10::ScalarType kTypes[] = {c10::kFloat, c10::kBFloat16};
  if (simd::BestIsa() == simd::Isa::kNone) return {.types = {}, .why = "it needs AVX2"};
  return {.types = kTypes, .why = {}};
}

Capabilities::Fast WrittenInCuda() {
#ifdef FOVEA_KERNELS_CUDA
  return {.types = cuda::kTypes, .why = {}};
#else
  return {.types = {}, .why = "this library was built without nvcc"};
#endif
}

std::string_view ImplementationName(Implementation implementation) {
  switch (implementation) {
    case Implementation::kReference:
      return "reference";
    case Implementation::kCpu:
      return "cpu";
    case Implementation::kCuda:
      return "cuda";
  }
  TORCH_INTERNAL_ASSERT(false, "no such implementation");
}

Implementation ChooseImplementation(const Capabilities& capabilities, c10::DeviceType device,
                                    c10::ScalarType type) {
  if (const std::optional<Implementation> forced = ForcedImplementation()) {
    if (*forced != Implementation::kReference) {
      CheckForcedCanRun(capabilities, *forced, device, type);
    }
    return *forced;
  }
  if (device == c10::kCPU && Contains(capabilities.cpu.types, type)) return Implementation::kCpu;
  if (device == c10::kCUDA && Contains(capabilities.cuda.types, type)) return Implementation::kCuda;
  return Implementation::kReference;
}

ScopedForcedImplementation::ScopedForcedImplementation(std::optional<Implementation> forced)
    : previous_(scoped_force.exchange(forced ? static_cast<int>(*forced) : kNotForced)) {}

ScopedForcedImplementation::~ScopedForcedImplementation() { scoped_force.store(previous_); }

}  // namespace fovea::kernels
