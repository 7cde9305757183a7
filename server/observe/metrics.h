// Everything that is counted, as Prometheus reads it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/model_statistics.h"
#include "server/core/mutex.h"
#include "server/observe/gpu_sampler.h"
#include "server/observe/host_sampler.h"
#include "server/observe/metric_families.h"
#include "server/observe/model_meter.h"

namespace fovea {

// What LibTorch's allocator has of a GPU's memory, by kind, in bytes.
struct GpuAllocator {
  std::string uuid;  // as GpuSample has it
  std::vector<std::pair<std::string, int64_t>> kinds;
};

// What a scrape is told of the server as a whole.
struct ServerState {
  bool ready = false;                      // as health says it
  std::map<std::string_view, int> models;  // by state, "ready"
};

struct MetricsOptions {
  bool triton = false;  // Triton's names (nv_*) besides our own
  std::string nvml = "libnvidia-ml.so.1";
};

// Thread-safe. Outlives the meters that it gave out.
//
// No label is ever made of what a caller sent: series belong to loaded versions, and whatever names
// no loaded version is counted under model="other" (docs/faults.md, row 47). But for variants that
// experiments serve, whose attention a caller has named: limits::kMaxServedVariants at a time.
class Metrics final : public StatisticsSource {
 public:
  explicit Metrics(const MetricsOptions& options = {});
  ~Metrics() override;

  // The meter of a version that is about to serve. A reload goes on with the meter of the version
  // that it replaces, or where its labels changed at least with its statistics, so that no count
  // goes back. Waits for a meter with the same labels that is just being destroyed.
  std::shared_ptr<ModelMeter> Meter(const ModelView& model);

  // A request that named no loaded version was answered.
  void OnUnmatched(Protocol protocol, absl::StatusCode code) {
    unmatched_.Increment(protocol, code);
  }

  // A request was answered whose caller showed the API key of that name, one of the operator's
  // file.
  void OnKeyUsed(std::string_view key, absl::StatusCode code);
  // The server reads such files again when they change: its series are there from now on, so that
  // the first change is seen.
  void WatchCredentials(std::string_view what);
  // Files of credentials have changed, and were taken or not. `what`: a constant.
  void OnCredentialReload(std::string_view what, bool taken);
  // Of the server's certificate, in seconds since 1970.
  void SetTlsExpiry(int64_t seconds) {
    families_->tls_expiry.Add({}).Set(static_cast<double>(seconds));
  }

  // What each scrape asks for what this process has of the GPUs. Once, before the first scrape.
  void WatchGpus(std::function<std::vector<GpuAllocator>()> read) {
    gpu_allocators_ = std::move(read);
  }

  // What each scrape asks for the server's state. Once, before the first scrape.
  void WatchServer(std::function<ServerState()> read) { server_state_ = std::move(read); }

  absl::StatusOr<std::vector<ModelStatistics>> Statistics(std::string_view name,
                                                          std::string_view version) const override;

  MetricFamilies& families() { return *families_; }

  // What a scrape reads.
  std::string Text() const;

 private:
  using Key = std::pair<std::string, std::string>;  // name, version

  prometheus::Counter& CredentialReloads(std::string_view what, bool taken);
  void Destroy(ModelMeter* meter);
  // Those of `name` and `version`, each empty for all, by name and version.
  std::vector<std::shared_ptr<ModelMeter>> Newest(std::string_view name,
                                                  std::string_view version) const;

  const std::shared_ptr<prometheus::Registry> registry_;
  const std::unique_ptr<MetricFamilies> families_;
  const std::shared_ptr<prometheus::Collectable> process_;
  const std::unique_ptr<GpuSampler> gpus_;                     // null: there are none
  std::function<std::vector<GpuAllocator>()> gpu_allocators_;  // null: there are none
  std::function<ServerState()> server_state_;                  // null: nobody says
  const std::unique_ptr<HostSampler> host_;                    // null: without Triton's names
  OwnedSeries other_;
  RequestCounters unmatched_;

  mutable Mutex mutex_;
  CondVar destroyed_;
  // Every meter whose series exist; expired ones are being destroyed.
  std::map<MetricLabels, std::weak_ptr<ModelMeter>> meters_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::weak_ptr<ModelMeter>> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
