#include "server/observe/gpu_sampler.h"

#include <dlfcn.h>

#include <utility>

namespace fovea {
namespace {

// NVML's interface, as far as it is used; the names with _v2 are those that its header gives the
// plain ones. Its own header is part of the CUDA toolkit, which a build need not have.
using Device = void*;
constexpr int kSuccess = 0;
constexpr unsigned kUuidBytes = 96;
constexpr unsigned kMostGpus = 64;  // whose series there are

struct Memory {
  unsigned long long total, free, used;  // bytes
};
struct Utilization {
  unsigned gpu, memory;  // percent
};

}  // namespace

struct GpuSampler::Gpu {
  Device device = nullptr;
  std::string uuid;
  std::optional<unsigned long long> energy_at_start;  // mJ
};

struct GpuSampler::Library {
  void* handle = nullptr;
  bool initialised = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;  // mW
  int (*power_limit)(Device, unsigned*) = nullptr;
  int (*energy)(Device, unsigned long long*) = nullptr;  // mJ since the driver was loaded

  ~Library() {
    if (initialised) shutdown();
    if (handle != nullptr) dlclose(handle);
  }

  template <typename Function>
  bool Find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle, name));
    return function != nullptr;
  }

  bool Load(const std::string& file) {
    handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) return false;
    initialised = Find("nvmlInit_v2", init) && Find("nvmlShutdown", shutdown) &&
                  Find("nvmlDeviceGetCount_v2", count) &&
                  Find("nvmlDeviceGetHandleByIndex_v2", by_index) &&
                  Find("nvmlDeviceGetUUID", uuid) && Find("nvmlDeviceGetMemoryInfo", memory) &&
                  Find("nvmlDeviceGetUtilizationRates", utilization) &&
                  Find("nvmlDeviceGetPowerUsage", power) &&
                  Find("nvmlDeviceGetPowerManagementLimit", power_limit) &&
                  Find("nvmlDeviceGetTotalEnergyConsumption", energy) && init() == kSuccess;
    return initialised;
  }
};

GpuSampler::GpuSampler(std::unique_ptr<Library> library) : library_(std::move(library)) {}
GpuSampler::~GpuSampler() = default;

std::unique_ptr<GpuSampler> GpuSampler::Open(const std::string& library) {
  auto loaded = std::make_unique<Library>();
  if (!loaded->Load(library)) return nullptr;
  std::unique_ptr<GpuSampler> sampler(new GpuSampler(std::move(loaded)));
  const Library& nvml = *sampler->library_;
  unsigned count = 0;
  if (nvml.count(&count) != kSuccess) return nullptr;
  for (unsigned i = 0; i < count && i < kMostGpus; ++i) {
    Gpu gpu;
    char uuid[kUuidBytes] = {};
    if (nvml.by_index(i, &gpu.device) != kSuccess ||
        nvml.uuid(gpu.device, uuid, kUuidBytes) != kSuccess) {
      continue;
    }
    gpu.uuid = uuid;
    unsigned long long energy = 0;
    if (nvml.energy(gpu.device, &energy) == kSuccess) gpu.energy_at_start = energy;
    sampler->gpus_.push_back(std::move(gpu));
  }
  return sampler->gpus_.empty() ? nullptr : std::move(sampler);
}

std::vector<GpuSample> GpuSampler::Read() const {
  std::vector<GpuSample> samples;
  for (const Gpu& gpu : gpus_) {
    GpuSample& sample = samples.emplace_back();
    sample.uuid = gpu.uuid;
    if (Memory memory{}; library_->memory(gpu.device, &memory) == kSuccess) {
      sample.memory_used_bytes = memory.used;
      sample.memory_total_bytes = memory.total;
    }
    if (Utilization use{}; library_->utilization(gpu.device, &use) == kSuccess) {
      sample.utilization = use.gpu / 100.0;
    }
    if (unsigned milliwatts = 0; library_->power(gpu.device, &milliwatts) == kSuccess) {
      sample.power_watts = milliwatts / 1000.0;
    }
    if (unsigned milliwatts = 0; library_->power_limit(gpu.device, &milliwatts) == kSuccess) {
      sample.power_limit_watts = milliwatts / 1000.0;
    }
    unsigned long long energy = 0;
    if (gpu.energy_at_start && library_->energy(gpu.device, &energy) == kSuccess) {
      sample.energy_joules = static_cast<double>(energy - *gpu.energy_at_start) / 1000.0;
    }
  }
  return samples;
}

}  // namespace fovea
