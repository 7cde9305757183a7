// Calls that have variants served: each holds its variants from their loads until it ends.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/compare/experiment_line.h"
#include "server/compare/serve/variant_catalog.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"
#include "server/core/variant_serving.h"

namespace fovea {

struct VariantServerOptions {
  size_t max_waiting = limits::kMaxWaitingServes;  // for the call whose variants are being loaded
  size_t max_calls = limits::kMaxServeCalls;       // that have variants served at a time
  Nanos max_time = limits::kMaxServeSeconds * kSecond;  // after which a call is ended
};

// Thread-safe.
class VariantServer final : public VariantServing {
 public:
  // UNAVAILABLE server.no_thread. `variants` and `clock` outlive it.
  static absl::StatusOr<std::unique_ptr<VariantServer>> Create(const VariantServerOptions& options,
                                                               VariantCatalog& variants,
                                                               Clock& clock);
  ~VariantServer() override { Stop(); }

  // No more calls, and the one whose variants are being loaded is given up. Waits for nothing.
  void CancelLoads();
  // Ends all calls, UNAVAILABLE. Waits for nothing. Later calls do nothing.
  void Close();
  // The same, and waits for the load that is under way.
  void Stop();

  void Serve(ServeRequest request, CancellationPtr cancellation, ProgressListener progress,
             Served served, Done done) override;

 private:
  using Leases = std::vector<std::unique_ptr<VariantCatalog::Lease>>;

  // Those whose variants are served. Outlives the server where a caller just cancels. Thread-safe.
  class OpenCalls : public std::enable_shared_from_this<OpenCalls> {
   public:
    struct Call {
      Leases leases;
      CancellationPtr cancellation;
      Served served;
      Done done;
      Nanos until = kNever;  // when it is ended

      void Tell();  // what is served, unless it has ended
      Mutex telling;
      bool ended ABSL_GUARDED_BY(telling) = false;
    };

    void Add(const std::shared_ptr<Call>& call);
    size_t size() const;
    // Those that are added from here on are ended at once.
    void Refuse();
    // Ends all.
    void Close();
    // Until they are closed: ends those whose time is up, and tells the others again what is
    // served.
    void Watch(Clock& clock);

   private:
    // Once; a later one does nothing.
    void End(uint64_t number, const absl::Status& status);

    mutable Mutex mutex_;
    CondVar changed_;
    bool refused_ ABSL_GUARDED_BY(mutex_) = false;
    bool closed_ ABSL_GUARDED_BY(mutex_) = false;
    uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
    std::map<uint64_t, std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
  };

  VariantServer(const VariantServerOptions& options, VariantCatalog& variants, Clock& clock)
      : options_(options), variants_(variants), clock_(clock) {}

  absl::Status Load(const ServeRequest& request, const CancellationPtr& cancellation,
                    const ProgressListener& progress, Leases* leases) const;

  const VariantServerOptions options_;
  VariantCatalog& variants_;
  Clock& clock_;
  const std::shared_ptr<OpenCalls> calls_ = std::make_shared<OpenCalls>();
  std::thread watch_;
  std::unique_ptr<ExperimentLine> line_;  // its thread uses the others
};

}  // namespace fovea
