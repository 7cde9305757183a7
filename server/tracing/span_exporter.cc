#include "server/tracing/span_exporter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/log.h"
#include "server/core/start_threads.h"
#include "server/tracing/random_id.h"

namespace fovea {
namespace {

// By up to a half.
Nanos SomewhatShorter(Nanos time) {
  return time - static_cast<Nanos>(RandomSpanId() % (static_cast<uint64_t>(time) / 2 + 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpanExporter>> SpanExporter::Create(
    const SpanExporterOptions& options, std::unique_ptr<SpanSink> sink, SpanObserver& observer,
    Clock& clock) {
  std::unique_ptr<SpanExporter> exporter(
      new SpanExporter(options, std::move(sink), observer, clock));
  FOVEA_RETURN_IF_ERROR(StartThreads(
      [&] { exporter->thread_ = std::thread([raw = exporter.get()] { raw->Work(); }); }));
  return exporter;
}

SpanExporter::SpanExporter(const SpanExporterOptions& options, std::unique_ptr<SpanSink> sink,
                           SpanObserver& observer, Clock& clock)
    : options_(options), sink_(std::move(sink)), observer_(observer), clock_(clock) {}

SpanExporter::~SpanExporter() { Stop(clock_.Now()); }

void SpanExporter::Add(std::vector<Span> spans) {
  {
    MutexLock lock(mutex_);
    if (!stopping_ && waiting_.size() + spans.size() <= options_.max_waiting) {
      if (waiting_.empty()) send_at_ = clock_.Now() + options_.delay;
      const bool wakes = waiting_.empty() || waiting_.size() + spans.size() >= options_.max_batch;
      std::ranges::move(spans, std::back_inserter(waiting_));
      if (wakes) changed_.NotifyAll();
      return;
    }
  }
  observer_.OnDropped(static_cast<int64_t>(spans.size()));
}

void SpanExporter::Stop(Nanos until) {
  if (!thread_.joinable()) return;
  int64_t dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    while (!ended_ && clock_.Now() < until) clock_.WaitUntil(changed_, mutex_, until);
    abandoned_ = true;
    dropped = static_cast<int64_t>(std::exchange(waiting_, {}).size());
  }
  sink_->Cancel();
  thread_.join();
  if (dropped > 0) observer_.OnDropped(dropped);
}

void SpanExporter::Work() {
  for (;;) {
    const std::vector<Span> batch = Next();
    if (batch.empty()) break;
    Send(batch);
  }
  MutexLock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

std::vector<Span> SpanExporter::Next() {
  MutexLock lock(mutex_);
  while (!stopping_ && waiting_.size() < options_.max_batch &&
         (waiting_.empty() || clock_.Now() < send_at_)) {
    clock_.WaitUntil(changed_, mutex_, waiting_.empty() ? kNever : send_at_);
  }
  const auto size = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), options_.max_batch));
  std::vector<Span> batch(std::make_move_iterator(waiting_.begin()),
                          std::make_move_iterator(waiting_.begin() + size));
  waiting_.erase(waiting_.begin(), waiting_.begin() + size);
  return batch;
}

void SpanExporter::Send(const std::vector<Span>& batch) {
  const auto spans = static_cast<int64_t>(batch.size());
  Nanos wait = options_.first_wait;
  for (int attempt = 1;; ++attempt) {
    const ExportResult result = sink_->Export(batch, options_.timeout);
    // Counted before it is told: who reads the line finds it counted.
    if (result.outcome == ExportResult::Outcome::kTaken) {
      const int64_t rejected = std::clamp<int64_t>(result.rejected, 0, spans);
      if (rejected > 0) observer_.OnFailed(rejected);
      if (rejected < spans) observer_.OnExported(spans - rejected);
      return TellOf(result);
    }
    observer_.OnFailedExport();
    const bool may_again =
        result.outcome == ExportResult::Outcome::kTryAgain && attempt < options_.attempts;
    if (!may_again) observer_.OnFailed(spans);
    TellOf(result);
    if (!may_again) return;
    const bool goes_on = Wait(
        std::max(SomewhatShorter(wait), std::min(result.retry_after, options_.longest_asked_wait)));
    if (!goes_on) return observer_.OnFailed(spans);
    wait = std::min(2 * wait, options_.longest_wait);
  }
}

bool SpanExporter::Wait(Nanos time) {
  const Nanos until = clock_.Now() + time;
  MutexLock lock(mutex_);
  while (!stopping_ && clock_.Now() < until) clock_.WaitUntil(changed_, mutex_, until);
  return !stopping_;
}

// A line where it begins to fail and where it works again, whatever the number of attempts.
void SpanExporter::TellOf(const ExportResult& result) {
  const bool fails = result.outcome != ExportResult::Outcome::kTaken;
  if (fails == failing_) return;
  failing_ = fails;
  if (fails) {
    Log(LogLevel::kWarning,
        absl::StrCat("spans are not taken by the collector of --otlp-endpoint: ", result.why));
  } else {
    Log(LogLevel::kInfo, "spans are taken again by the collector of --otlp-endpoint");
  }
}

}  // namespace fovea
