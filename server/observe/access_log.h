// A line for each inference request, or for those that failed: what an operator greps for when a
// caller says "it did not work".
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"
#include "server/core/stages.h"

namespace fovea {

// An answered request. `id`, `model`, `version` are as the caller wrote them.
struct AccessRecord {
  std::string_view protocol, method;
  std::string_view principal;  // of the caller; empty: nobody in particular, and no field
  std::string_view trace_id;   // that it belongs to; empty: none, and no field
  std::string_view id, model, version;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view reason;  // the error's token
  StageTimes stages;
  int64_t received_bytes = 0, sent_bytes = 0;
};

enum class AccessLogMode { kOff, kErrors, kAll };

struct AccessLogOptions {
  AccessLogMode mode = AccessLogMode::kErrors;
  // kAll: of the requests that were answered, one in so many is logged. Raise it where requests are
  // many and the log is dear; failed ones are always meant to be there.
  int64_t sample = 1;
  // Lines of failed requests in one second. What is beyond is counted and told in one line: an
  // overload must not turn into a flood of lines.
  int max_failures_per_second = 100;
};

// Thread-safe.
class AccessLog {
 public:
  AccessLog(const AccessLogOptions& options, Clock& clock) : options_(options), clock_(clock) {}

  void Write(const AccessRecord& record);

  // Tells how many failed requests were not written, where no failure has told it since. When the
  // server drains: there may be no other.
  void Flush();

 private:
  // Whether the line is to be written; tells first how many were not.
  bool Admit(absl::StatusCode code);
  void TellLeftOut(int64_t requests) const;

  const AccessLogOptions options_;
  Clock& clock_;
  Mutex mutex_;
  int64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanos second_ ABSL_GUARDED_BY(mutex_) = 0;  // when the current one began
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;  // logged in it
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace fovea
