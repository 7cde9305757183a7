#include "server/observe/triton_metrics.h"

#include <optional>
#include <string>

#include "server/observe/single_metric.h"

namespace fovea {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricLabels LabelsOf(const TritonModel& model) {
  return {{"model", model.statistics.name}, {"version", model.statistics.version}};
}

// A family with a value of each model.
template <typename ValueOf>
MetricFamily OfModels(std::span<const TritonModel> models, const char* name, const char* help,
                      MetricType type, const ValueOf& value_of) {
  MetricFamily family{name, help, type, {}};
  for (const TritonModel& model : models) {
    AddSeries(family, LabelsOf(model), static_cast<double>(value_of(model)));
  }
  return family;
}

// Whole microseconds, as Triton counts them.
uint64_t Microseconds(const DurationSum& sum) { return sum.nanoseconds / 1000; }

}  // namespace

std::vector<MetricFamily> TritonModelFamilies(std::span<const TritonModel> models) {
  const auto counter = [&](const char* name, const char* help, const auto& value_of) {
    return OfModels(models, name, help, MetricType::Counter, value_of);
  };
  MetricFamily failure{
      "nv_inference_request_failure", "Requests that failed, by reason", MetricType::Counter, {}};
  for (const TritonModel& model : models) {
    for (size_t i = 0; i < model.failures.size(); ++i) {
      MetricLabels labels = LabelsOf(model);
      labels["reason"] = std::string(kTritonFailureNames[i]);
      AddSeries(failure, labels, static_cast<double>(model.failures[i]));
    }
  }
  return {
      counter("nv_inference_request_success", "Requests that were answered OK",
              [](const TritonModel& model) { return model.statistics.success.count; }),
      std::move(failure),
      counter("nv_inference_count", "Images that were run",
              [](const TritonModel& model) { return model.statistics.inference_count; }),
      counter("nv_inference_exec_count", "Batches that were run",
              [](const TritonModel& model) { return model.statistics.execution_count; }),
      counter("nv_inference_request_duration_us",
              "Sum over the requests that were answered OK, in microseconds: the whole time",
              [](const TritonModel& model) { return Microseconds(model.statistics.success); }),
      counter("nv_inference_queue_duration_us", "The same: waiting in the queue",
              [](const TritonModel& model) { return Microseconds(model.statistics.queue); }),
      counter(
          "nv_inference_compute_input_duration_us", "The same: receiving, decoding and resizing",
          [](const TritonModel& model) { return Microseconds(model.statistics.compute_input); }),
      counter(
          "nv_inference_compute_infer_duration_us", "The same: running the model",
          [](const TritonModel& model) { return Microseconds(model.statistics.compute_infer); }),
      counter(
          "nv_inference_compute_output_duration_us", "The same: making and encoding answers",
          [](const TritonModel& model) { return Microseconds(model.statistics.compute_output); }),
      OfModels(models, "nv_inference_pending_request_count", "Requests that wait to be run",
               MetricType::Gauge, [](const TritonModel& model) { return model.pending; })};
}

std::vector<MetricFamily> TritonHostFamilies(HostSampler& host) {
  std::vector<MetricFamily> families;
  if (const std::optional<double> utilization = host.CpuUtilization()) {
    families.push_back(SingleSeries("nv_cpu_utilization",
                                    "Share of the machine's processors that work, 0 to 1",
                                    MetricType::Gauge, *utilization));
  }
  if (const std::optional<HostSampler::Memory> memory = host.ReadMemory()) {
    families.push_back(SingleSeries("nv_cpu_memory_total_bytes", "Memory of the machine",
                                    MetricType::Gauge, static_cast<double>(memory->total_bytes)));
    families.push_back(SingleSeries("nv_cpu_memory_used_bytes", "Memory of the machine in use",
                                    MetricType::Gauge, static_cast<double>(memory->used_bytes)));
  }
  return families;
}

std::vector<MetricFamily> TritonGpuFamilies(std::span<const GpuSample> gpus) {
  std::vector<MetricFamily> families;
  const auto add = [&](const char* name, const char* help, MetricType type,
                       auto GpuSample::*value) {
    MetricFamily family{name, help, type, {}};
    for (const GpuSample& gpu : gpus) {
      if (!(gpu.*value)) continue;
      AddSeries(family, {{"gpu_uuid", gpu.uuid}}, static_cast<double>(*(gpu.*value)));
    }
    if (!family.metric.empty()) families.push_back(std::move(family));
  };
  add("nv_gpu_utilization", "Share of the time that the GPU worked, 0 to 1", MetricType::Gauge,
      &GpuSample::utilization);
  add("nv_gpu_memory_total_bytes", "Memory of the GPU", MetricType::Gauge,
      &GpuSample::memory_total_bytes);
  add("nv_gpu_memory_used_bytes", "Memory of the GPU in use", MetricType::Gauge,
      &GpuSample::memory_used_bytes);
  add("nv_gpu_power_usage", "Power that the GPU takes, in watts", MetricType::Gauge,
      &GpuSample::power_watts);
  add("nv_gpu_power_limit", "Power that the GPU may take, in watts", MetricType::Gauge,
      &GpuSample::power_limit_watts);
  add("nv_energy_consumption", "Energy that the GPU has taken since the server began, in joules",
      MetricType::Counter, &GpuSample::energy_joules);
  return families;
}

}  // namespace fovea
