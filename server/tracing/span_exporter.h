// Sends spans in batches, on a thread of its own: who records one waits for nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"
#include "server/tracing/span.h"

namespace fovea {

struct ExportResult {
  enum class Outcome {
    kTaken,
    kTryAgain,  // the same spans may be sent again
    kRefused,   // and would be refused again
  };
  Outcome outcome = Outcome::kTaken;
  int64_t rejected = 0;   // of those that were taken, the spans that were not
  Nanos retry_after = 0;  // the least to wait, where who refused says so
  std::string why;        // where it was not taken; for the log
};

// Where spans go. Export is called by one thread at a time, and blocks for `timeout` at most;
// Cancel comes from another, and ends the Export that is under way and all later ones.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual ExportResult Export(std::span<const Span> spans, Nanos timeout) = 0;
  virtual void Cancel() = 0;
};

// Counts what becomes of spans. Thread-safe; returns quickly.
class SpanObserver {
 public:
  virtual ~SpanObserver() = default;
  virtual void OnExported(int64_t spans) = 0;
  virtual void OnDropped(int64_t spans) = 0;  // never sent: the queue was full, or the server ended
  virtual void OnFailed(int64_t spans) = 0;   // sent, and not taken
  virtual void OnFailedExport() = 0;          // an attempt to send a batch
};

struct SpanExporterOptions {
  // Spans that wait at most; what comes then is dropped. Each takes about a KiB.
  size_t max_waiting = limits::kMaxWaitingSpans;
  size_t max_batch = limits::kMaxSpanBatch;
  Nanos delay = kSecond;  // that a span waits at most for others before it is sent
  Nanos timeout = limits::kSpanExportSeconds * kSecond;  // of one attempt
  int attempts = limits::kSpanExportAttempts;            // of a batch
  // Before the second attempt at most, and before any; it doubles each time. By chance it is up to
  // a half shorter, so that servers do not come back together.
  Nanos first_wait = kSecond;
  Nanos longest_wait = 10 * kSecond;
  Nanos longest_asked_wait = 60 * kSecond;  // where the collector asks for one
};

// Thread-safe. Goes one way: taking, stopped.
class SpanExporter {
 public:
  // `observer` and `clock` outlive it. UNAVAILABLE server.no_thread.
  static absl::StatusOr<std::unique_ptr<SpanExporter>> Create(const SpanExporterOptions& options,
                                                              std::unique_ptr<SpanSink> sink,
                                                              SpanObserver& observer, Clock& clock);
  // Stops at once.
  ~SpanExporter();

  // Puts spans in line, all or none of them; none where they do not fit or it has stopped. Returns
  // quickly.
  void Add(std::vector<Span> spans);

  // Sends what waits, each batch once, until `until` at most; the rest is dropped. Later calls do
  // nothing.
  void Stop(Nanos until);

 private:
  SpanExporter(const SpanExporterOptions& options, std::unique_ptr<SpanSink> sink,
               SpanObserver& observer, Clock& clock);

  void Work();
  // The next batch; empty: it has stopped, and nothing is left.
  std::vector<Span> Next();
  void Send(const std::vector<Span>& batch);
  // Whether a batch may be sent again: it has waited for `time`, and the server goes on.
  bool Wait(Nanos time);
  void TellOf(const ExportResult& result);

  const SpanExporterOptions options_;
  const std::unique_ptr<SpanSink> sink_;
  SpanObserver& observer_;
  Clock& clock_;
  bool failing_ = false;  // the thread's: that the last attempt failed has been told

  Mutex mutex_;
  CondVar changed_;
  std::deque<Span> waiting_ ABSL_GUARDED_BY(mutex_);
  Nanos send_at_ ABSL_GUARDED_BY(mutex_) = kNever;  // those that wait, though they are few
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more is sent
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace fovea
