#include "server/observe/metrics.h"

#include <prometheus/text_serializer.h>

#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "server/observe/logging.h"
#include "server/observe/process_collector.h"
#include "server/observe/single_metric.h"
#include "server/observe/triton_metrics.h"

namespace fovea {

namespace {

void Append(std::vector<prometheus::MetricFamily>& families,
            std::vector<prometheus::MetricFamily> more) {
  std::move(more.begin(), more.end(), std::back_inserter(families));
}

// Of the whole machine's GPUs, whoever uses them.
std::vector<prometheus::MetricFamily> GpuFamilies(std::span<const GpuSample> gpus) {
  using prometheus::MetricType;
  prometheus::MetricFamily memory{
      "fovea_gpu_memory_bytes", "Memory of a GPU by kind", MetricType::Gauge, {}};
  prometheus::MetricFamily utilization{
      "fovea_gpu_utilization_ratio", "Share of the time that a GPU worked", MetricType::Gauge, {}};
  for (const GpuSample& gpu : gpus) {
    for (const auto& [kind, bytes] :
         {std::pair("used", gpu.memory_used_bytes), std::pair("total", gpu.memory_total_bytes)}) {
      if (!bytes) continue;
      AddSeries(memory, {{"gpu", gpu.uuid}, {"kind", kind}}, static_cast<double>(*bytes));
    }
    if (gpu.utilization) AddSeries(utilization, {{"gpu", gpu.uuid}}, *gpu.utilization);
  }
  std::vector<prometheus::MetricFamily> families;
  for (prometheus::MetricFamily* family : {&memory, &utilization}) {
    if (!family->metric.empty()) families.push_back(std::move(*family));
  }
  return families;
}

// Of this process.
prometheus::MetricFamily AllocatorFamily(std::span<const GpuAllocator> gpus) {
  prometheus::MetricFamily family{"fovea_gpu_allocator_bytes",
                                  "What this server has of a GPU's memory, by kind",
                                  prometheus::MetricType::Gauge,
                                  {}};
  for (const GpuAllocator& gpu : gpus) {
    for (const auto& [kind, bytes] : gpu.kinds) {
      AddSeries(family, {{"gpu", gpu.uuid}, {"kind", kind}}, static_cast<double>(bytes));
    }
  }
  return family;
}

void AppendServerState(const ServerState& state, std::vector<prometheus::MetricFamily>& families) {
  using prometheus::MetricType;
  families.push_back(SingleSeries("fovea_server_ready", "1 where health reads ready, 0 elsewhere",
                                  MetricType::Gauge, state.ready));
  prometheus::MetricFamily models{
      "fovea_models", "Models of the repository by state", MetricType::Gauge, {}};
  for (const auto& [name, count] : state.models) {
    AddSeries(models, {{"state", std::string(name)}}, count);
  }
  families.push_back(std::move(models));
}

}  // namespace

Metrics::Metrics(const MetricsOptions& options)
    : registry_(std::make_shared<prometheus::Registry>()),
      families_(std::make_unique<MetricFamilies>(*registry_)),
      process_(std::make_shared<ProcessCollector>()),
      gpus_(GpuSampler::Open(options.nvml)),
      host_(options.triton ? std::make_unique<HostSampler>() : nullptr),
      other_(MetricLabels{{"model", "other"}}),
      unmatched_(*families_, other_) {}

Metrics::~Metrics() = default;

std::shared_ptr<ModelMeter> Metrics::Meter(const ModelView& model) {
  const MetricLabels labels = ModelMeter::LabelsOf(model);
  // Released outside the lock: the last handle takes it.
  std::shared_ptr<ModelMeter> meter, before;
  {
    MutexLock lock(mutex_);
    auto known = meters_.find(labels);
    while (known != meters_.end() && (meter = known->second.lock()) == nullptr) {
      destroyed_.Wait(mutex_);
      known = meters_.find(labels);
    }
    std::weak_ptr<ModelMeter>& newest = newest_[{model.name, model.version}];
    if (meter == nullptr) {
      before = newest.lock();
      auto statistics =
          before != nullptr ? before->statistics() : std::make_shared<StatisticsRecord>(model);
      meter = {new ModelMeter(*families_, model, std::move(statistics)),
               [this](ModelMeter* done) { Destroy(done); }};
      meters_[labels] = meter;
    }
    newest = meter;
  }
  meter->Describe(model);
  return meter;
}

void Metrics::OnKeyUsed(std::string_view key, absl::StatusCode code) {
  families_->key_requests.Add({{"key", std::string(key)}, {"code", absl::StatusCodeToString(code)}})
      .Increment();
}

prometheus::Counter& Metrics::CredentialReloads(std::string_view what, bool taken) {
  return families_->credential_reloads.Add(
      {{"what", std::string(what)}, {"result", taken ? "taken" : "refused"}});
}

void Metrics::WatchCredentials(std::string_view what) {
  for (const bool taken : {true, false}) CredentialReloads(what, taken);
}

void Metrics::OnCredentialReload(std::string_view what, bool taken) {
  CredentialReloads(what, taken).Increment();
}

void Metrics::Destroy(ModelMeter* meter) {
  const MetricLabels labels = meter->labels();
  delete meter;
  MutexLock lock(mutex_);
  meters_.erase(labels);
  std::erase_if(newest_, [](const auto& entry) { return entry.second.expired(); });
  destroyed_.NotifyAll();
}

std::vector<std::shared_ptr<ModelMeter>> Metrics::Newest(std::string_view name,
                                                         std::string_view version) const {
  std::vector<std::shared_ptr<ModelMeter>> meters;
  MutexLock lock(mutex_);
  for (const auto& [key, known] : newest_) {
    if (!name.empty() && key.first != name) continue;
    if (!version.empty() && key.second != version) continue;
    if (auto meter = known.lock()) meters.push_back(std::move(meter));
  }
  return meters;
}

absl::StatusOr<std::vector<ModelStatistics>> Metrics::Statistics(std::string_view name,
                                                                 std::string_view version) const {
  const std::vector<std::shared_ptr<ModelMeter>> meters = Newest(name, version);
  if (meters.empty() && !name.empty()) {
    return NotFound("model.not_found", "no such model or version is loaded");
  }
  std::vector<ModelStatistics> all;
  for (const auto& meter : meters) all.push_back(meter->statistics()->Read());
  return all;
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  Append(families, process_->Collect());
  families.push_back(
      SingleSeries("fovea_log_dropped_lines_total",
                   "Lines of the log that were dropped because its reader was too slow",
                   prometheus::MetricType::Counter, static_cast<double>(DroppedLogLines())));
  if (server_state_) AppendServerState(server_state_(), families);
  const std::vector<GpuSample> gpus = gpus_ != nullptr ? gpus_->Read() : std::vector<GpuSample>{};
  Append(families, GpuFamilies(gpus));
  if (gpu_allocators_) families.push_back(AllocatorFamily(gpu_allocators_()));
  if (host_ != nullptr) {
    std::vector<TritonModel> models;
    for (const auto& meter : Newest("", "")) {
      models.push_back({.statistics = meter->statistics()->Read(),
                        .failures = meter->statistics()->failures(),
                        .pending = meter->queue_depth()});
    }
    Append(families, TritonModelFamilies(models));
    Append(families, TritonHostFamilies(*host_));
    Append(families, TritonGpuFamilies(gpus));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace fovea
