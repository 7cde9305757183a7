// How many of the device's threads a batch gets. Batches are moldable tasks (Feitelson and Rudolph,
// "Toward Convergence in Job Schedulers for Parallel Supercomputers", JSSPP 1996): the number is
// chosen when one starts, and kept until it ends.
#pragma once

#include <algorithm>
#include <span>

#include "server/core/clock.h"
#include "server/scheduler/latency_model.h"

namespace fovea {

// The numbers of threads that a model's batches may get, ascending and not empty, and the images of
// its largest batch. Each number of threads has its part of the images: batches that run side by
// side hold no more of them together than one on all threads. Where only one number is allowed,
// each batch may be the largest.
struct AllowedThreads {
  std::span<const int> threads;
  int max_batch_size = 1;

  int fewest() const { return threads.front(); }
  int most() const { return threads.back(); }
  // In a batch on `on` threads; at least 1.
  int MaxImages(int on) const { return std::max(1, max_batch_size * on / most()); }
  // In a batch of this instance, 0 being the first: a batch gets the first instance that is idle,
  // so that those before it have a batch, on `fewest` threads at least.
  int MaxImagesOfInstance(int instance) const;
  // The fewest on which a batch may have `images`, of 1 .. max_batch_size.
  int FewestThreadsFor(int images) const;
};

// What waits for the device, and what is free of it.
struct BatchDemand {
  int images = 1;            // in line for such batches, or soon to be; >= first_images
  int first_images = 1;      // of the first task, which is not divided
  int free_threads = 1;      // for this model; >= 1
  Nanos time_left = kNever;  // until the first task's deadline
  bool fill = false;         // batches may have more images than pay, up to MaxImages
};

struct BatchPlan {
  int threads = 1;  // may be more than are free: the batch is to wait for them
  int images = 1;   // at most
};

// Pure. Unless batches are to be filled they have no more images than pay
// (LatencyModel::Worthwhile), or than the first task has. Few images get all free threads in
// one batch, many are divided into batches of fewer threads that run side by side: by the latency
// curves, so that all in line are done soonest. Of numbers of threads that do about as well the
// smallest is taken, which costs least device time. A number that was not measured for
// LatencyModel::kFresh, or never, is taken to be as good as the others let hope: as many times
// faster as it is larger. One with which the first task is in time comes before one with which it
// is late. Where it is late on all that are free, and would not be on more, the batch is to wait
// for these.
BatchPlan PlanBatch(const AllowedThreads& allowed, const BatchDemand& demand,
                    const LatencyModels::Shape& curves, Nanos now);

}  // namespace fovea
