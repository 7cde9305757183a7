// Which image is decoded next: every decision of the imaging pool, without threads. It is stepped
// with a time.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "server/core/clock.h"
#include "server/core/weighted_order.h"
#include "server/imaging/imaging_times.h"
#include "server/scheduler/fair_share.h"

namespace fovea {

using ImagingLineId = uint64_t;
using ImagingTaskId = uint64_t;

// What is known of an image before its turn.
struct ImagingOutline {
  ImagingWork work;
  int priority = 0;  // 0 is served first
  Nanos order = 0;   // inside its priority: the deadline, or what stands for one
  // Decoded later than this it would be of no use: its model could not run it by its deadline.
  Nanos ready_by = kNever;
  // Of results: InferenceRequest::split_from.
  uint64_t split_from = 0;
};

// Not thread-safe. Never reads a clock: `now` does not go back from call to call.
//
// Each model has a line: earliest deadline first inside a priority. Between models the threads'
// time is shared as the device's is, by deficit round robin on what was measured.
//
// The results of one request's pictures leave a thread to other requests, where there are two
// threads or more: what has begun keeps its thread, and masks may take long. As many as may run are
// in line or running, and the rest is held back. Requests together may still hold every thread.
class ImagingSchedule {
 public:
  explicit ImagingSchedule(int threads);

  ImagingLineId AddLine();
  // It is empty.
  void RemoveLine(ImagingLineId line);

  ImagingTaskId Add(ImagingLineId line, const ImagingOutline& outline);
  // Whether Next would give one: what is held back does not count.
  bool has_next() const { return waiting_ > held_; }
  // Takes the image whose turn it is; nothing where no image is in line. It runs until Done.
  std::optional<ImagingTaskId> Next(Nanos now);
  // `took`: for how long it had its thread. `worked`: how much of that tells how long such images
  // take; nothing where it was not decoded to its end.
  void Done(ImagingTaskId task, Nanos took, std::optional<Nanos> worked, Nanos now);

  // Whether a running image will be decoded after its `ready_by`: probably where others wait for
  // the thread, almost certainly where none does.
  bool Hopeless(ImagingTaskId task, Nanos now) const;

  // Of a running image: its line, and what its work will hardly take less than (0: not known).
  ImagingLineId LineOf(ImagingTaskId task) const { return running_.at(task).line; }
  Nanos LeastTime(ImagingTaskId task) const {
    return times_.Fast(running_.at(task).task.outline.work);
  }

  // When images that come now would all be decoded. `now` where nothing is known of such ones.
  // As under PredictFinish, images are taken to be slow ones, but fast where a thread is idle.
  Nanos Forecast(ImagingLineId line, int priority, Nanos order, std::span<const ImagingWork> images,
                 Nanos now) const;

  // Images that do not run yet, in line or held back.
  int waiting() const { return waiting_; }
  int waiting(ImagingLineId line) const;
  // Lines with images that wait, and this one.
  int lines_in_use(ImagingLineId line) const;

 private:
  struct Place {
    int priority;
    Nanos order;
    ImagingTaskId id;
    auto operator<=>(const Place&) const = default;
  };
  struct Waiting {
    ImagingOutline outline;
    Nanos estimate;  // of its thread time, when it came
  };
  struct Line {
    WeightedOrder<Place, std::less<>> order;  // weighed by their estimates
    absl::flat_hash_map<ImagingTaskId, Waiting> tasks;
    int held = 0;  // images
    bool empty() const { return order.empty() && held == 0; }
  };
  struct Running {
    ImagingLineId line;  // may be gone
    Waiting task;
    Nanos started_at;
  };
  struct Held {
    ImagingTaskId id;
    ImagingLineId line;
    Waiting task;
  };
  // Of one request's pictures, while there are some. They have one line, priority and order.
  struct Results {
    int admitted = 0;  // in line or running
    std::deque<Held> held;
    Nanos held_time = 0;  // the estimates of those
  };

  // How long the results take that are held back: of all requests together, and of the one with
  // the most.
  struct HeldBack {
    Nanos all = 0, most = 0;
    void Add(const HeldBack& others);
  };

  void PutInLine(ImagingTaskId task, ImagingLineId line, const Waiting& waiting);
  // An image with such an outline has run: what was held back for it is put in line.
  void AdmitNext(const ImagingOutline& done);
  // By line: of `line` what would come before `place`, of the others everything.
  absl::flat_hash_map<ImagingLineId, HeldBack> HeldBefore(ImagingLineId line,
                                                          const Place& place) const;
  // The part of it that can delay other work. With two threads or more one request leaves a thread
  // to others: alone it delays nothing.
  Nanos DelayOf(const HeldBack& held) const;

  const int threads_;
  const int most_results_;  // of one request
  ImagingTimes times_;
  FairShare fair_share_;
  std::map<ImagingLineId, Line> lines_;
  absl::flat_hash_map<ImagingTaskId, Running> running_;
  absl::flat_hash_map<uint64_t, Results> results_;  // by ImagingOutline::split_from
  int waiting_ = 0;
  int held_ = 0;  // of them
  ImagingLineId last_line_ = 0;
  ImagingTaskId last_task_ = 0;
};

}  // namespace fovea
