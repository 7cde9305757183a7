#include "server/imaging/imaging_schedule.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/check.h"

namespace fovea {
namespace {

// Thread time that a model gains each time its turn comes. Images are not cut: below the time of
// one it makes no difference.
constexpr Nanos kQuantum = kMillisecond;

bool IsOfSplitRequest(const ImagingOutline& outline) {
  return outline.work.kind == ImageKind::kResults && outline.split_from != 0;
}

}  // namespace

ImagingSchedule::ImagingSchedule(int threads)
    : threads_(threads), most_results_(std::max(1, threads - 1)), fair_share_(kQuantum) {
  FOVEA_CHECK(threads >= 1);
}

ImagingLineId ImagingSchedule::AddLine() {
  const ImagingLineId id = ++last_line_;
  lines_.try_emplace(id);
  fair_share_.Add(id);
  return id;
}

void ImagingSchedule::RemoveLine(ImagingLineId id) {
  const auto line = lines_.find(id);
  FOVEA_CHECK(line != lines_.end() && line->second.empty());
  lines_.erase(line);
  fair_share_.Remove(id);
}

ImagingTaskId ImagingSchedule::Add(ImagingLineId id, const ImagingOutline& outline) {
  const ImagingTaskId task = ++last_task_;
  const Waiting waiting{outline, times_.Slow(outline.work)};
  ++waiting_;
  if (IsOfSplitRequest(outline)) {
    Results& results = results_[outline.split_from];
    if (results.admitted == most_results_) {
      results.held.push_back({task, id, waiting});
      results.held_time += waiting.estimate;
      ++lines_.at(id).held;
      ++held_;
      return task;
    }
    ++results.admitted;
  }
  PutInLine(task, id, waiting);
  return task;
}

void ImagingSchedule::PutInLine(ImagingTaskId task, ImagingLineId id, const Waiting& waiting) {
  Line& line = lines_.at(id);
  line.order.Insert({waiting.outline.priority, waiting.outline.order, task}, waiting.estimate);
  line.tasks.emplace(task, waiting);
}

void ImagingSchedule::AdmitNext(const ImagingOutline& done) {
  if (!IsOfSplitRequest(done)) return;
  const auto found = results_.find(done.split_from);
  FOVEA_CHECK(found != results_.end());
  Results& results = found->second;
  if (results.held.empty()) {
    if (--results.admitted == 0) results_.erase(found);
    return;
  }
  const Held next = results.held.front();
  results.held.pop_front();
  results.held_time -= next.task.estimate;
  --lines_.at(next.line).held;
  --held_;
  PutInLine(next.id, next.line, next.task);
}

void ImagingSchedule::HeldBack::Add(const HeldBack& others) {
  all += others.all;
  most = std::max(most, others.most);
}

absl::flat_hash_map<ImagingLineId, ImagingSchedule::HeldBack> ImagingSchedule::HeldBefore(
    ImagingLineId line, const Place& place) const {
  absl::flat_hash_map<ImagingLineId, HeldBack> before;
  for (const auto& [request, results] : results_) {
    if (results.held.empty()) continue;
    const Held& first = results.held.front();
    const Place at{first.task.outline.priority, first.task.outline.order, first.id};
    if (first.line == line && !(at < place)) continue;
    before[first.line].Add({.all = results.held_time, .most = results.held_time});
  }
  return before;
}

Nanos ImagingSchedule::DelayOf(const HeldBack& held) const {
  return threads_ > 1 ? std::min(held.all, threads_ * (held.all - held.most)) : held.all;
}

int ImagingSchedule::waiting(ImagingLineId line) const {
  const Line& of = lines_.at(line);
  return static_cast<int>(of.tasks.size()) + of.held;
}

int ImagingSchedule::lines_in_use(ImagingLineId line) const {
  return static_cast<int>(std::ranges::count_if(
      lines_, [line](const auto& entry) { return entry.first == line || !entry.second.empty(); }));
}

std::optional<ImagingTaskId> ImagingSchedule::Next(Nanos now) {
  absl::InlinedVector<FairShare::Member, 16> ready;
  for (const auto& [id, line] : lines_) {
    if (!line.order.empty()) ready.push_back(id);
  }
  if (ready.empty()) return std::nullopt;
  const ImagingLineId id = fair_share_.Next(ready);
  Line& line = lines_.at(id);
  const Place place = line.order.front();
  line.order.Erase(place);
  auto task = line.tasks.extract(place.id);
  // Charged in advance with what it will probably take; Done corrects it.
  fair_share_.Charge(id, task.mapped().estimate);
  running_.emplace(place.id, Running{id, task.mapped(), now});
  --waiting_;
  return place.id;
}

void ImagingSchedule::Done(ImagingTaskId id, Nanos took, std::optional<Nanos> worked, Nanos now) {
  const auto found = running_.find(id);
  FOVEA_CHECK(found != running_.end());
  const Running run = found->second;
  running_.erase(found);
  fair_share_.Charge(run.line, took - run.task.estimate);
  if (worked) times_.Record(run.task.outline.work, *worked, now);
  AdmitNext(run.task.outline);
}

bool ImagingSchedule::Hopeless(ImagingTaskId id, Nanos now) const {
  const ImagingOutline& outline = running_.at(id).task.outline;
  if (outline.ready_by == kNever || !times_.Trusted(outline.work, now)) return false;
  const Nanos takes = has_next() ? times_.Typical(outline.work) : times_.Fast(outline.work);
  return outline.ready_by - now < takes;
}

Nanos ImagingSchedule::Forecast(ImagingLineId id, int priority, Nanos order,
                                std::span<const ImagingWork> images, Nanos now) const {
  const bool idle = !has_next() && static_cast<int>(running_.size()) < threads_;
  Nanos own = 0, longest = 0;
  for (const ImagingWork& work : images) {
    if (!times_.Trusted(work, now)) return now;
    const Nanos takes = idle ? times_.Fast(work) : times_.Slow(work);
    own += takes;
    longest = std::max(longest, takes);
  }
  const Place place{priority, order, ~ImagingTaskId{0}};
  // What comes before these images: what does in their line; of each other line as much, since all
  // get as much of the threads while they have work; of what is held back, that which can delay.
  // At least: what several lines hold back may make this line's part longer than is taken here.
  auto held_by_line = HeldBefore(id, place);
  HeldBack held = held_by_line[id];
  Nanos work = own + lines_.at(id).order.Before(place);
  const Nanos in_line = work + DelayOf(held);
  Nanos most_held = held.all;  // that the lines' parts leave room for
  for (const auto& [other, line] : lines_) {
    if (other == id) continue;
    const Nanos ready = std::min<Nanos>(line.order.total(), in_line);
    const HeldBack& theirs = held_by_line[other];
    work += ready;
    most_held += std::min(theirs.all, in_line - ready);
    held.Add(theirs);
  }
  work += std::min(DelayOf(held), most_held);
  if (idle && images.size() == 1) return now + longest;
  for (const auto& [task, run] : running_) {
    work += std::max<Nanos>(0, run.started_at + run.task.estimate - now);
  }
  // Graham's bound for work on several threads: the longest image begins, at the latest, when the
  // rest is shared out.
  return now + (work - longest) / threads_ + longest;
}

}  // namespace fovea
