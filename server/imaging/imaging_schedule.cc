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

}  // namespace

ImagingSchedule::ImagingSchedule(int threads) : threads_(threads), fair_share_(kQuantum) {
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
  FOVEA_CHECK(line != lines_.end() && line->second.order.empty());
  lines_.erase(line);
  fair_share_.Remove(id);
}

ImagingTaskId ImagingSchedule::Add(ImagingLineId id, const ImagingOutline& outline) {
  const ImagingTaskId task = ++last_task_;
  const Nanos estimate = times_.Slow(outline.work);
  Line& line = lines_.at(id);
  line.order.Insert({outline.priority, outline.order, task}, estimate);
  line.tasks.emplace(task, Waiting{outline, estimate});
  ++waiting_;
  return task;
}

int ImagingSchedule::waiting(ImagingLineId line) const {
  return static_cast<int>(lines_.at(line).tasks.size());
}

int ImagingSchedule::lines_in_use(ImagingLineId line) const {
  return static_cast<int>(std::ranges::count_if(lines_, [line](const auto& entry) {
    return entry.first == line || !entry.second.order.empty();
  }));
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
}

bool ImagingSchedule::Hopeless(ImagingTaskId id, Nanos now) const {
  const ImagingOutline& outline = running_.at(id).task.outline;
  if (outline.ready_by == kNever || !times_.Trusted(outline.work, now)) return false;
  const Nanos takes = waiting_ > 0 ? times_.Typical(outline.work) : times_.Fast(outline.work);
  return outline.ready_by - now < takes;
}

Nanos ImagingSchedule::Forecast(ImagingLineId id, int priority, Nanos order,
                                std::span<const ImagingWork> images, Nanos now) const {
  const bool idle = waiting_ == 0 && static_cast<int>(running_.size()) < threads_;
  Nanos own = 0, longest = 0;
  for (const ImagingWork& work : images) {
    if (!times_.Trusted(work, now)) return now;
    const Nanos takes = idle ? times_.Fast(work) : times_.Slow(work);
    own += takes;
    longest = std::max(longest, takes);
  }
  const Nanos in_line = own + lines_.at(id).order.Before(Place{priority, order, ~ImagingTaskId{0}});
  Nanos work = in_line;
  for (const auto& [other, line] : lines_) {
    // Each of the others gets as much of the threads as this model while both have work.
    if (other != id) work += std::min<Nanos>(line.order.total(), in_line);
  }
  if (idle && images.size() == 1) return now + longest;
  for (const auto& [task, run] : running_) {
    work += std::max<Nanos>(0, run.started_at + run.task.estimate - now);
  }
  // Graham's bound for work on several threads: the longest image begins, at the latest, when the
  // rest is shared out.
  return now + (work - longest) / threads_ + longest;
}

}  // namespace fovea
