// Collectors as they should not be.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "server/core/mutex.h"
#include "server/tracing/span_exporter.h"

namespace fovea {

// What a sink has been told, and what it answers. Thread-safe.
class Collector {
 public:
  // From now on; taken where there is none.
  void AnswerWith(ExportResult result) {
    MutexLock lock(mutex_);
    result_ = std::move(result);
  }
  // Export blocks until it is cancelled.
  void Hang() {
    MutexLock lock(mutex_);
    hangs_ = true;
  }
  void AwaitAttempts(int attempts) {
    MutexLock lock(mutex_);
    while (attempts_ < attempts) changed_.Wait(mutex_);
  }
  int attempts() {
    MutexLock lock(mutex_);
    return attempts_;
  }
  std::vector<size_t> batches() {
    MutexLock lock(mutex_);
    return batches_;
  }

 private:
  friend class FakeSink;
  Mutex mutex_;
  CondVar changed_;
  ExportResult result_ ABSL_GUARDED_BY(mutex_);
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  int attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<size_t> batches_ ABSL_GUARDED_BY(mutex_);
};

class FakeSink final : public SpanSink {
 public:
  explicit FakeSink(Collector& collector) : to_(collector) {}

  ExportResult Export(std::span<const Span> spans, Nanos) override {
    MutexLock lock(to_.mutex_);
    ++to_.attempts_;
    to_.batches_.push_back(spans.size());
    to_.changed_.NotifyAll();
    while (to_.hangs_ && !to_.cancelled_) to_.changed_.Wait(to_.mutex_);
    if (to_.cancelled_) return {.outcome = ExportResult::Outcome::kTryAgain, .why = "cancelled"};
    return to_.result_;
  }
  void Cancel() override {
    MutexLock lock(to_.mutex_);
    to_.cancelled_ = true;
    to_.changed_.NotifyAll();
  }

 private:
  Collector& to_;
};

// Thread-safe.
class CountingObserver final : public SpanObserver {
 public:
  void OnExported(int64_t spans) override { Add(&exported_, spans); }
  void OnDropped(int64_t spans) override { Add(&dropped_, spans); }
  void OnFailed(int64_t spans) override { Add(&failed_, spans); }
  void OnFailedExport() override { Add(&failed_exports_, 1); }

  struct Counts {
    int64_t exported, dropped, failed, failed_exports;
    bool operator==(const Counts&) const = default;
  };
  Counts counts() {
    MutexLock lock(mutex_);
    return {exported_, dropped_, failed_, failed_exports_};
  }
  void AwaitEnded(int64_t spans) {
    MutexLock lock(mutex_);
    while (exported_ + dropped_ + failed_ < spans) changed_.Wait(mutex_);
  }

 private:
  void Add(int64_t* count, int64_t more) {
    MutexLock lock(mutex_);
    *count += more;
    changed_.NotifyAll();
  }
  Mutex mutex_;
  CondVar changed_;
  int64_t exported_ = 0, dropped_ = 0, failed_ = 0, failed_exports_ = 0;
};

}  // namespace fovea
