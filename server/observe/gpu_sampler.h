// What NVIDIA's driver tells of the machine's GPUs: their memory, use and power.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fovea {

// Of a whole GPU, whoever uses it. What the driver does not tell is absent.
struct GpuSample {
  std::string uuid;  // "GPU-8674351b-..."
  std::optional<uint64_t> memory_used_bytes, memory_total_bytes;
  std::optional<double> utilization;  // of the last driver's interval, 0 to 1
  std::optional<double> power_watts, power_limit_watts;
  std::optional<double> energy_joules;  // since Open
};

// Reads through NVML, the driver's library, which is loaded where it is there: a server that was
// built without CUDA has it too, and a machine without a GPU loads nothing. Thread-safe. A driver
// whose GPU was lost may not come back: to be read where only a scrape waits.
class GpuSampler {
 public:
  // Null where there is no such library, or no GPU.
  static std::unique_ptr<GpuSampler> Open(const std::string& library = "libnvidia-ml.so.1");
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  std::vector<GpuSample> Read() const;

 private:
  struct Library;
  struct Gpu;
  explicit GpuSampler(std::unique_ptr<Library> library);

  const std::unique_ptr<Library> library_;
  std::vector<Gpu> gpus_;
};

}  // namespace fovea
