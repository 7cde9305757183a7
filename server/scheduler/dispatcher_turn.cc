// Whose turn it is: shares of the device count where somebody could be late.
//
// A batch that may miss its deadline if it is passed over is due; so is one without a deadline, and
// one that has waited for some full batches of its model, because a far deadline is no wish to
// wait. The due ones take turns by fair share of device time. Where nothing is due nobody is held
// up: then the batch goes first that has to start first (earliest deadline first), and its time is
// no part of its model's share. So models that are rarely asked do not take turns early, in small
// batches, at the cost of those that are asked often, and who floods the device cannot make others
// late. The figures of docs/results/simulation show what this is worth.
#include <algorithm>

#include "server/scheduler/dispatcher.h"

namespace fovea {
namespace {

// A deadline is in danger when fewer of its batch's own runs than this fit before it: batches of
// other models may start before it, and the next decision comes when one of them ends.
constexpr int kSpareRuns = 2;
// Full batches of its model that a line waits for at most, before it is due. Higher: more requests
// in time where the device is nearly full, and longer waits for callers with far deadlines.
constexpr int kMostPatience = 4;

}  // namespace

bool Dispatcher::IsDue(const Ready& one, Nanos held_up, Nanos now) const {
  if (one.start_by == kNever || one.start_by - now <= kSpareRuns * one.run_time + held_up) {
    return true;
  }
  const TaskQueue& line = one.queue->line;
  const Nanos full_batch = one.queue->LatestFullBatch(line.front().shape_key).run_time();
  return now - line.oldest() >= kMostPatience * full_batch;
}

Dispatcher::Turn Dispatcher::NextTurn(absl::Span<const Ready> ready, Nanos now) {
  // For how long the device is taken from whoever is passed over. Where it runs several batches at
  // a time another ends before.
  Nanos held_up = 0;
  for (const Ready& one : ready) {
    held_up = std::max(held_up, one.run_time * one.threads / options_.device_threads);
  }
  absl::InlinedVector<FairShare::Member, 8> due;
  for (const Ready& one : ready) {
    if (IsDue(one, held_up, now)) due.push_back(one.queue->id);
  }
  if (due.empty()) {
    return {.ready = std::min_element(
                ready.begin(), ready.end(),
                [](const Ready& a, const Ready& b) { return a.start_by < b.start_by; }),
            .charged = false};
  }
  const FairShare::Member next = fair_share_.Next(due);
  return {.ready = std::find_if(ready.begin(), ready.end(),
                                [&](const Ready& one) { return one.queue->id == next; }),
          .charged = true};
}

}  // namespace fovea
