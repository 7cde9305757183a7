// The measured latency curves of one model, for each shape and number of threads: how long the run
// of a batch takes, by its images.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "server/core/clock.h"
#include "server/scheduler/task.h"

namespace fovea {

// Not thread-safe.
//
// Keeps the latest runs of each batch size, so that one hiccup does not bend the curve and a
// lasting change does within a few runs; what is older than kMemory says nothing of now and is
// forgotten, size by size. Sizes between two measured ones are interpolated; outside
// of them the curve is taken to lie between constant and proportional, because a batch takes at
// least as long as a smaller one and at most as long as its images one by one.
class LatencyModel {
 public:
  // `images` >= 1. A run that ended at `now`.
  void Record(int images, Nanos duration, Nanos now);

  // Three readings of the curve at `images` images; 0 where nothing was measured yet.
  Nanos Fast(int images) const;     // the best of the latest runs: it will hardly take less
  Nanos Typical(int images) const;  // their median
  Nanos Slow(int images) const;     // nine in ten take at most this

  // The smallest and the largest size that was measured; 0 where none was.
  int least() const { return by_size_.empty() ? 0 : by_size_.begin()->first; }
  int most() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

  // How many of `images` that wait pay in one batch, where `most_images` may be in one: as many as
  // the smallest measured size whose images take at most kHardlyMore times as long each, by the
  // median, as those of the best measured size. In a larger batch they would mostly wait for each
  // other. All of them where no size of twice that is remembered, and where they are as many and
  // none has run for kFresh: steps by one image tell little, and what paid little may pay by now.
  int Worthwhile(int images, int most_images, Nanos now) const;
  static constexpr double kHardlyMore = 1.05;  // higher: smaller batches, less throughput

  // Whether the curve may turn work away. Work that is turned away is not measured: without an end
  // to its trust one wrong measurement could keep a model's requests out for ever.
  bool Trusted(Nanos now) const;
  static constexpr Nanos kTrust = 10 * kSecond;
  // Whether the curve tells of now. What looked slow once is not run, and so not measured: after
  // this time it is worth another try.
  bool Fresh(Nanos now) const;
  static constexpr Nanos kFresh = 60 * kSecond;

  static constexpr int kRunsKept = 16;  // of a size
  static constexpr Nanos kMemory = 600 * kSecond;

 private:
  struct Run {
    Nanos took;
    Nanos ended;
  };
  struct Runs {
    std::deque<Run> latest;  // the oldest first
    Nanos fast = 0;
    Nanos typical = 0;
    Nanos slow = 0;
  };
  enum class Outside { kConstant, kProportional };
  Nanos Read(int images, Nanos Runs::*reading, Outside below, Outside above) const;

  std::map<int, Runs> by_size_;
  int worthwhile_ = 0;  // the size that Worthwhile tells of; 0: none was measured
  Nanos last_record_ = 0;
};

// Not thread-safe. What was never measured reads as an empty curve.
class LatencyModels {
 public:
  // Of one shape key, the curves by the threads of a batch.
  class Shape {
   public:
    const LatencyModel& On(int threads) const;
    // What a batch hardly takes less than, on as many threads as are best for it.
    Nanos Fast(int images) const;
    // One of the curves may turn work away.
    bool Trusted(Nanos now) const;
    // Of the last run; 0 where there was none.
    int latest_threads() const { return latest_threads_; }

   private:
    friend class LatencyModels;
    std::map<int, LatencyModel> by_threads_;
    int latest_threads_ = 0;
  };

  void Record(const BatchSize& batch, Nanos duration, Nanos now);
  const Shape& Of(uint64_t shape_key) const;
  const LatencyModel& Of(uint64_t shape_key, int threads) const {
    return Of(shape_key).On(threads);
  }

 private:
  absl::flat_hash_map<uint64_t, Shape> by_shape_;
};

}  // namespace fovea
