// Triton's own metrics (nv_*), under the names, labels and units that its dashboards, autoscalers
// and perf_analyzer read.
#pragma once

#include <prometheus/metric_family.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "server/core/model_statistics.h"
#include "server/observe/gpu_sampler.h"
#include "server/observe/host_sampler.h"
#include "server/observe/statistics_record.h"

namespace fovea {

// One version that serves.
struct TritonModel {
  ModelStatistics statistics;
  std::array<uint64_t, kTritonFailureNames.size()> failures{};
  int pending = 0;  // requests that wait for the model
};

std::vector<prometheus::MetricFamily> TritonModelFamilies(std::span<const TritonModel> models);

// nv_cpu_*; nothing where the machine does not tell.
std::vector<prometheus::MetricFamily> TritonHostFamilies(HostSampler& host);

// nv_gpu_* and nv_energy_consumption of the GPUs that tell them.
std::vector<prometheus::MetricFamily> TritonGpuFamilies(std::span<const GpuSample> gpus);

}  // namespace fovea
