#include "server/compare/serve/variant_server.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/caller_cancelled.h"
#include "server/core/server_stopping.h"
#include "server/core/start_threads.h"

namespace fovea {
namespace {

using Phase = ComparisonProgress::Phase;

// Between two messages of a call that just holds its variants. Who is in between sees that it
// lives, and over HTTP a caller that has gone is seen by what cannot be sent to it: shorter takes
// its variants away sooner.
constexpr Nanos kBeat = 2 * kSecond;

absl::Status CheckRequest(const ServeRequest& request) {
  if (!request.variants.empty() &&
      request.variants.size() <= static_cast<size_t>(limits::kMaxComparedVariants)) {
    return absl::OkStatus();
  }
  return InvalidArgument("serve.bad_request",
                         absl::StrCat("the number of variants is ", request.variants.size(),
                                      ", not 1 to ", limits::kMaxComparedVariants));
}

}  // namespace

void VariantServer::OpenCalls::Call::Tell() {
  std::vector<ServedVariant> variants;
  MutexLock lock(telling);
  if (ended) return;
  for (const auto& lease : leases) variants.push_back(lease->variant());
  served(std::move(variants));
}

void VariantServer::OpenCalls::Add(const std::shared_ptr<Call>& call) {
  call->Tell();
  uint64_t number;
  bool refused;
  {
    MutexLock lock(mutex_);
    number = next_++;
    refused = refused_;
    calls_.emplace(number, call);
    changed_.NotifyAll();
  }
  if (refused) return End(number, ServerStopping());
  // Runs at once where it has been cancelled.
  call->cancellation->OnCancel(
      [calls = shared_from_this(), number] { calls->End(number, CallerCancelled("serve")); });
}

size_t VariantServer::OpenCalls::size() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

void VariantServer::OpenCalls::End(uint64_t number, const absl::Status& status) {
  std::shared_ptr<Call> call;
  {
    MutexLock lock(mutex_);
    const auto found = calls_.find(number);
    if (found == calls_.end()) return;
    call = std::move(found->second);
    calls_.erase(found);
  }
  call->cancellation->OnCancel(nullptr);
  {
    MutexLock lock(call->telling);
    call->ended = true;
    call->leases.clear();
  }
  call->done(status);
}

void VariantServer::OpenCalls::Refuse() {
  MutexLock lock(mutex_);
  refused_ = true;
}

void VariantServer::OpenCalls::Close() {
  std::vector<uint64_t> open;
  {
    MutexLock lock(mutex_);
    refused_ = closed_ = true;
    changed_.NotifyAll();
    for (const auto& [number, call] : calls_) open.push_back(number);
  }
  for (const uint64_t number : open) End(number, ServerStopping());
}

void VariantServer::OpenCalls::Watch(Clock& clock) {
  Nanos beat = clock.Now() + kBeat;
  for (;;) {
    std::vector<uint64_t> late;
    std::vector<std::shared_ptr<Call>> due;
    {
      MutexLock lock(mutex_);
      if (closed_) return;
      const Nanos now = clock.Now();
      Nanos next = calls_.empty() ? kNever : beat;
      for (const auto& [number, call] : calls_) {
        next = std::min(next, call->until);
        if (call->until <= now) {
          late.push_back(number);
        } else if (beat <= now) {
          due.push_back(call);
        }
      }
      if (beat <= now) beat = now + kBeat;
      if (late.empty() && due.empty()) clock.WaitUntil(changed_, mutex_, next);
    }
    for (const auto& call : due) call->Tell();
    for (const uint64_t number : late) {
      End(number,
          DeadlineExceeded("serve.too_long",
                           "variants are served for so long and no longer: ask for them again"));
    }
  }
}

absl::StatusOr<std::unique_ptr<VariantServer>> VariantServer::Create(
    const VariantServerOptions& options, VariantCatalog& variants, Clock& clock) {
  std::unique_ptr<VariantServer> server(new VariantServer(options, variants, clock));
  FOVEA_RETURN_IF_ERROR(StartThreads([&] {
    server->watch_ = std::thread([calls = server->calls_, &clock] { calls->Watch(clock); });
  }));
  FOVEA_ASSIGN_OR_RETURN(server->line_,
                         ExperimentLine::Create({.name = "serve",
                                                 .what = "calls that serve variants",
                                                 .max_waiting = options.max_waiting}));
  return server;
}

void VariantServer::CancelLoads() {
  calls_->Refuse();  // first: a call whose variants have just been loaded hears why it ends
  line_->Close();
}

void VariantServer::Close() {
  calls_->Close();  // first, likewise
  if (line_ != nullptr) line_->Close();
}

void VariantServer::Stop() {
  Close();
  if (line_ != nullptr) line_->Stop();
  if (watch_.joinable()) watch_.join();
}

absl::Status VariantServer::Load(const ServeRequest& request, const CancellationPtr& cancellation,
                                 const ProgressListener& progress, Leases* leases) const {
  // This thread alone adds some.
  if (calls_->size() >= options_.max_calls) {
    return Unavailable("serve.busy", "too many calls have variants served: try again later");
  }
  const int total = static_cast<int>(request.variants.size());
  for (const Variant& variant : request.variants) {
    progress({Phase::kLoading, static_cast<int>(leases->size()), total});
    FOVEA_ASSIGN_OR_RETURN(auto lease, variants_.Serve(variant, cancellation));
    leases->push_back(std::move(lease));
  }
  return absl::OkStatus();
}

void VariantServer::Serve(ServeRequest request, CancellationPtr cancellation,
                          ProgressListener progress, Served served, Done done) {
  if (absl::Status checked = CheckRequest(request); !checked.ok()) return done(std::move(checked));
  const auto leases = std::make_shared<Leases>();
  line_->Add({.cancellation = cancellation,
              .wait = [progress] { progress({.phase = Phase::kWaiting}); },
              .run = [this, request = std::move(request), cancellation, progress,
                      leases] { return Load(request, cancellation, progress, leases.get()); },
              .end =
                  [this, cancellation, leases, served = std::move(served),
                   done = std::move(done)](const absl::Status& status) {
                    if (!status.ok()) {
                      leases->clear();
                      return done(status);
                    }
                    const auto call = std::make_shared<OpenCalls::Call>();
                    call->leases = std::move(*leases);
                    call->cancellation = cancellation;
                    call->served = served;
                    call->done = done;
                    call->until = clock_.Now() + options_.max_time;
                    calls_->Add(call);
                  }});
}

}  // namespace fovea
