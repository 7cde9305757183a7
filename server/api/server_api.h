// What the server offers, whatever the protocol: a handler for each call, in core's types. A
// transport frames and parses messages, and calls these.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/api/authenticator.h"
#include "server/api/deferred_calls.h"
#include "server/api/health_board.h"
#include "server/api/inference_call.h"
#include "server/api/log_control.h"
#include "server/api/request_gate.h"
#include "server/api/request_observer.h"
#include "server/api/transport.h"
#include "server/core/clock.h"
#include "server/core/comparison.h"
#include "server/core/explanation.h"
#include "server/core/live_experiment.h"
#include "server/core/memory_budget.h"
#include "server/core/model_catalog.h"
#include "server/core/model_statistics.h"
#include "server/core/request_memory.h"
#include "server/core/sweep.h"
#include "server/core/variant_serving.h"
#include "server/shared_memory/shared_memory_regions.h"
#include "server/tracing/tracer.h"

namespace fovea {

struct ServerApiOptions {
  std::string server_version;  // told in the server's metadata
  // Of everything that requests make the server hold beside gRPC's buffers and beside what
  // decoding an image takes: unpacked and converted messages, pixels at a model's size, answers
  // until they have left. What does not fit is refused, UNAVAILABLE.
  int64_t request_bytes = int64_t{768} << 20;
  // At its end a drain waits until no inference request has come for `quiet_ms`, at most for
  // `max_quiet_wait_ms`: what was on its way hears why it is refused.
  int64_t quiet_ms = limits::kQuietMs;
  int64_t max_quiet_wait_ms = limits::kMaxQuietWaitMs;
  // Where callers may have their tensors; null: in their messages only. Give it where every caller
  // may read and write all shared memory that the server may.
  std::shared_ptr<SharedMemoryRegions> shared_memory = nullptr;
  ComparisonRunner* comparisons = nullptr;            // null: there are none
  SweepRunner* sweeps = nullptr;                      // null: there are none
  ExplanationRunner* explanations = nullptr;          // null: there are none
  VariantServing* variants = nullptr;                 // null: none are served
  LiveExperiments* experiments = nullptr;             // null: there are none
  std::shared_ptr<Tracer> tracer = nullptr;           // null: nothing is traced
  std::string log_format = "text";                    // of the process's log, told in its settings
  std::function<NotReady()> why_not_ready = nullptr;  // asked while health reads kNotServing
};

struct ServerMetadata {
  std::string_view name;
  std::string_view version;
  // What is true of this server, in Triton's words (its extensions of the protocol), and
  // "experiments" where it compares and explains (--enable-experiments). Absent: sequences and
  // CUDA's shared memory, which it does not have, and binary_tensor_data, which is about HTTP.
  std::span<const std::string_view> extensions;
};

// Calls of the repository. `repository_name`: empty; repositories cannot be chosen.
struct IndexCall {
  std::string repository_name;
  bool ready_only = false;
};
struct LoadCall {
  std::string repository_name;
  std::string model_name;
  struct Parameter {
    std::string name;
    std::optional<std::string> text;                  // none: it is not text
    std::optional<std::string> bytes = std::nullopt;  // of a file
  };
  // Known: "config", JSON of a ModelConfig; with it, "file:<version>/model.safetensors".
  std::vector<Parameter> parameters;
  // In which its files count until they are loaded, and LargestFile() once more until they are
  // written down; or null.
  std::shared_ptr<RequestMemory> memory;

  // Bytes that are there twice while files are written down, one after the other.
  int64_t LargestFile() const;
};
struct UnloadCall {
  std::string repository_name;
  std::string model_name;
};

// Thread-safe. What it is given outlives it, and it outlives its transports. States: accepting,
// draining, stopped.
class ServerApi {
 public:
  // Health reads kNotServing until SetServing(true). `observer` may be null. UNAVAILABLE
  // server.no_thread.
  static absl::StatusOr<std::unique_ptr<ServerApi>> Create(const ServerApiOptions& options,
                                                           ModelCatalog& catalog,
                                                           const StatisticsSource& statistics,
                                                           RequestObserver* observer, Clock& clock);

  // What health and ServerReady say; requests are taken either way. A drain begins with false.
  void SetServing(bool serving) { health_->SetServing(serving); }
  bool serving() const { return health_->serving(); }
  // Empty where nobody knows why.
  NotReady WhyNotReady() const {
    return options_.why_not_ready ? options_.why_not_ready() : NotReady();
  }
  ServerMetadata Metadata() const;
  HealthBoard& health() { return *health_; }

  // A ready version, for its metadata and configuration; ModelCatalog::Find's errors.
  absl::StatusOr<std::shared_ptr<const ModelView>> FindModel(std::string_view name,
                                                             std::string_view version) const {
    return catalog_.Find(name, version);
  }
  // That a model is unknown or still loading is an answer. INVALID_ARGUMENT: it can have no such
  // name.
  absl::StatusOr<bool> ModelReady(std::string_view name, std::string_view version) const;
  // `name` empty: of every model. INVALID_ARGUMENT as above; StatisticsSource's errors.
  absl::StatusOr<std::vector<ModelStatistics>> Statistics(const std::string& name,
                                                          const std::string& version) const;

  // These take as long as the disk and a load do: they return at once, and answer later.
  // UNIMPLEMENTED: what the repository does not do; INVALID_ARGUMENT: a parameter that it does not
  // know; UNAVAILABLE: too many wait, or the server drains; ModelCatalog's errors.
  using RepositoryIndex = absl::StatusOr<std::vector<IndexEntry>>;
  void ListRepository(IndexCall call, WaitingCaller<RepositoryIndex> caller);
  void LoadModel(LoadCall call, WaitingCaller<absl::Status> caller);
  void UnloadModel(UnloadCall call, WaitingCaller<absl::Status> caller);

  // SharedMemoryRegions' calls. Without one, there are no regions, and registering is
  // UNIMPLEMENTED.
  absl::Status RegisterSharedMemory(SharedMemoryRegionInfo region);
  void UnregisterSharedMemory(const std::string& name);
  absl::StatusOr<std::vector<SharedMemoryRegionInfo>> SharedMemoryStatus(
      const std::string& name) const;

  // ComparisonRunner's call. UNIMPLEMENTED where this server runs none.
  void Compare(CompareRequest request, CancellationPtr cancellation, ProgressListener progress,
               ComparisonRunner::Done done);

  // SweepRunner's call. UNIMPLEMENTED where this server runs none.
  void Sweep(SweepRequest request, CancellationPtr cancellation, ProgressListener progress,
             SweepRunner::Done done);

  // ExplanationRunner's call. UNIMPLEMENTED where this server explains nothing.
  void Explain(ExplainRequest request, CancellationPtr cancellation, ExplanationRunner::Done done);

  // VariantServing's call. UNIMPLEMENTED where this server serves none.
  void Serve(ServeRequest request, CancellationPtr cancellation, ProgressListener progress,
             VariantServing::Served served, VariantServing::Done done);
  // UNIMPLEMENTED where this server runs no experiments.
  absl::StatusOr<LiveExperiments*> Experiments();

  // What this server does not have: UNIMPLEMENTED.
  static absl::Status RegisterCudaSharedMemory();

  // TraceControl's calls, after `changes`, of a model that serves or, where `model` is empty, of
  // the server. The log says of each change that `caller` made it. Also ModelCatalog::Find's
  // errors.
  absl::StatusOr<TraceControl::Values> ChangeTraceSettings(const std::string& model,
                                                           const TraceControl::Values& changes,
                                                           const Caller& caller);
  // LogControl's calls, after `changes`; logged alike.
  absl::StatusOr<LogControl::Values> ChangeLogSettings(const LogControl::Values& changes,
                                                       const Caller& caller);

  // Refuses new requests (UNAVAILABLE), waits up to `timeout` for those under way, gives the others
  // up (UNAVAILABLE too, within limits::kGiveUpSeconds more), and closes the transports; a model
  // that is being loaded is waited for. Answers that their callers do not read are waited for
  // limits::kUnreadAnswerSeconds at most, within `timeout`; quiet is waited for beyond it, but not
  // where `timeout` is 0. Returns the number of requests that were given up before they had an
  // answer: 0 is a clean end. Later calls do nothing and return 0.
  int Drain(std::span<Transport* const> transports, Nanos timeout);
  // Such a call, under way or to come, waits for requests until `until` at most, and begins no wait
  // for unread answers beyond it; requests that it gives up have limits::kGiveUpSeconds still.
  void HurryDrain(Nanos until) { gate_.CapAnswerDeadline(until); }

  // Who may call.
  Authenticator& authenticator() { return authenticator_; }

  // For InferenceCall.
  const ModelCatalog& catalog() const { return catalog_; }
  RequestObserver* observer() { return observer_; }                // null: nobody is told
  LiveExperiments* experiments() { return options_.experiments; }  // null: none has any traffic
  RequestGate& gate() { return gate_; }
  // Of all requests together, beside their messages.
  MemoryBudget& memory() { return memory_; }
  Tracer& tracer() { return *tracer_; }
  SharedMemoryRegions* shared_memory() { return options_.shared_memory.get(); }  // null: none
  Clock& clock() { return clock_; }

 private:
  ServerApi(const ServerApiOptions& options, ModelCatalog& catalog,
            const StatisticsSource& statistics, RequestObserver* observer, Clock& clock);
  // `work`, or why a server that drains does none.
  template <typename Answer>
  std::function<Answer()> UnlessDraining(std::function<Answer()> work);

  const ServerApiOptions options_;
  ModelCatalog& catalog_;
  const StatisticsSource& statistics_;
  RequestObserver* const observer_;
  Clock& clock_;
  MemoryBudget memory_;
  const std::shared_ptr<Tracer> tracer_;
  LogControl log_settings_;
  std::vector<std::string_view> extensions_;
  // The catalog tells it of models for as long as the catalog lives.
  const std::shared_ptr<HealthBoard> health_ = std::make_shared<HealthBoard>();
  Authenticator authenticator_;
  RequestGate gate_;
  std::atomic<bool> drained_ = false;
  // Each with threads of its own: what hangs on one folder holds up nothing of another kind.
  DeferredCalls<absl::Status> loads_;
  DeferredCalls<absl::Status> unloads_;
  DeferredCalls<RepositoryIndex> listings_;
};

}  // namespace fovea
