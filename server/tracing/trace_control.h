// Triton's trace settings, as far as they mean something here: which requests are traced, changed
// while the server runs, for all models or for one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/core/mutex.h"
#include "server/tracing/trace_context.h"

namespace fovea {

// Thread-safe.
class TraceControl {
 public:
  // By name. In a change, no value resets: a model's setting to the server's, the server's to what
  // it was at the start.
  using Values = std::map<std::string, std::vector<std::string>>;

  // `can_trace`: there is a collector. `sampling`: of requests without a parent, the share that is
  // traced as long as no trace_rate is set.
  TraceControl(bool can_trace, double sampling) : can_trace_(can_trace), sampling_(sampling) {}

  // All of `changes` or none, of `model` or, where that is empty, of the server.
  // INVALID_ARGUMENT trace.bad_setting: an unknown name or a value that makes no sense;
  // UNIMPLEMENTED trace.setting: what this server does not do; RESOURCE_EXHAUSTED
  // trace.too_many_models.
  absl::Status Change(const std::string& model, const Values& changes);

  // What holds for `model`, or for the server: all six.
  Values Current(const std::string& model) const;

  // Whether requests of `model` are traced at all.
  bool On(const std::string& model) const;
  // Whether a request of it that begins the trace `trace` is. Counts it.
  bool Take(const std::string& model, const TraceId& trace);

 private:
  // What has been set, of one model or of the server.
  struct Scope {
    std::optional<bool> on;        // trace_level
    std::optional<uint32_t> rate;  // trace_rate: one request in so many, 0: none
    std::optional<int64_t> count;  // trace_count: so many are left, -1: any number
    uint64_t seen = 0;             // requests, of which the rate takes one in so many

    bool empty() const { return !on && !rate && !count; }
  };

  absl::Status ChangeOne(std::string_view name, const std::vector<std::string>& values,
                         Scope* scope) const;
  // The scope that has `setting`; null: none has.
  template <typename Setting>
  Scope* Owner(const std::string& model, Setting Scope::*setting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Setting>
  Setting Get(const std::string& model, std::optional<Setting> Scope::*setting,
              Setting otherwise) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool can_trace_;
  const double sampling_;
  mutable Mutex mutex_;
  Scope server_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Scope> models_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
