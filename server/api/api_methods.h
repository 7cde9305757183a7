// The groups of what the server offers, and which method belongs to which, whatever the protocol.
// Keys and ports allow whole groups.
#pragma once

#include <array>
#include <bitset>
#include <string_view>

namespace fovea {

enum class ApiGroup {
  kHealth,    // open to everyone, on every port: whoever restarts the server has no key
  kMetadata,  // of the server, of models; reflection
  kInference,
  kSharedMemory,  // Triton's calls of it
  kRepository,    // index, load, unload
  kStatistics,
  kSettings,    // of traces and logs
  kComparison,  // of attentions: holds the device and memory
  // The pages of the playground: files that are in every copy of Fovea. Open to everyone where the
  // port answers them, because a browser shows no key when it opens a page.
  kPlayground,
};

inline constexpr std::array<std::string_view, 9> kApiGroupNames = {
    "health",     "metadata", "inference",  "shared_memory", "repository",
    "statistics", "settings", "comparison", "playground"};

// Whether nobody needs a key for it.
constexpr bool IsOpen(ApiGroup group) {
  return group == ApiGroup::kHealth || group == ApiGroup::kPlayground;
}

// A set of them.
class ApiGroups {
 public:
  static ApiGroups All() {
    ApiGroups all;
    all.groups_.set();
    return all;
  }
  // False: no group has that name.
  bool Add(std::string_view name) {
    for (size_t i = 0; i < kApiGroupNames.size(); ++i) {
      if (kApiGroupNames[i] != name) continue;
      groups_.set(i);
      return true;
    }
    return false;
  }
  void Remove(ApiGroup group) { groups_.reset(static_cast<size_t>(group)); }
  bool Has(ApiGroup group) const { return groups_.test(static_cast<size_t>(group)); }

  friend bool operator==(const ApiGroups&, const ApiGroups&) = default;

 private:
  std::bitset<kApiGroupNames.size()> groups_;
};

struct ApiMethod {
  std::string_view name;  // of the RPC; HTTP's paths go by the RPC that they stand for
  ApiGroup group;
};

inline constexpr ApiMethod kApiMethods[] = {
    // inference.GRPCInferenceService
    {"ServerLive", ApiGroup::kHealth},
    {"ServerReady", ApiGroup::kHealth},
    {"ModelReady", ApiGroup::kHealth},
    {"ServerMetadata", ApiGroup::kMetadata},
    {"ModelMetadata", ApiGroup::kMetadata},
    {"ModelConfig", ApiGroup::kMetadata},
    {"ModelInfer", ApiGroup::kInference},
    {"ModelStreamInfer", ApiGroup::kInference},
    {"ModelStatistics", ApiGroup::kStatistics},
    {"RepositoryIndex", ApiGroup::kRepository},
    {"RepositoryModelLoad", ApiGroup::kRepository},
    {"RepositoryModelUnload", ApiGroup::kRepository},
    {"SystemSharedMemoryStatus", ApiGroup::kSharedMemory},
    {"SystemSharedMemoryRegister", ApiGroup::kSharedMemory},
    {"SystemSharedMemoryUnregister", ApiGroup::kSharedMemory},
    {"CudaSharedMemoryStatus", ApiGroup::kSharedMemory},
    {"CudaSharedMemoryRegister", ApiGroup::kSharedMemory},
    {"CudaSharedMemoryUnregister", ApiGroup::kSharedMemory},
    {"TraceSetting", ApiGroup::kSettings},
    {"LogSettings", ApiGroup::kSettings},
    // fovea.v1.VisionService
    {"Classify", ApiGroup::kInference},
    {"Detect", ApiGroup::kInference},
    {"Segment", ApiGroup::kInference},
    {"StreamImages", ApiGroup::kInference},
    // fovea.v1.ComparisonService
    {"Compare", ApiGroup::kComparison},
    {"Sweep", ApiGroup::kComparison},
    {"Explain", ApiGroup::kComparison},
    {"Serve", ApiGroup::kComparison},
    // fovea.v1.ExperimentService
    {"StartExperiment", ApiGroup::kComparison},
    {"GetExperiment", ApiGroup::kComparison},
    {"ListExperiments", ApiGroup::kComparison},
    {"StopExperiment", ApiGroup::kComparison},
    {"DeleteExperiment", ApiGroup::kComparison},
    // HTTP's alone
    {"Metrics", ApiGroup::kStatistics},
    {"Playground", ApiGroup::kPlayground},
    // grpc.health.v1.Health
    {"Check", ApiGroup::kHealth},
    {"List", ApiGroup::kHealth},
    {"Watch", ApiGroup::kHealth},
    // grpc.reflection
    {"ServerReflectionInfo", ApiGroup::kMetadata},
};

// Its row of the table; does not compile where there is none.
consteval ApiMethod Method(std::string_view name) {
  for (const ApiMethod& method : kApiMethods) {
    if (method.name == name) return method;
  }
  throw "no row of kApiMethods";
}

}  // namespace fovea
