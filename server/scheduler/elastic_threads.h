// How many of the device's threads a batch gets. Batches are moldable tasks (Feitelson and Rudolph,
// "Toward Convergence in Job Schedulers for Parallel Supercomputers", JSSPP 1996): the number is
// chosen when one starts, and kept until it ends.
#pragma once

#include <algorithm>
#include <span>

#include "server/core/clock.h"
#include "server/scheduler/latency_model.h"

namespace fovea {

// The numbers of threads that a model's batches may get, ascending and not empty, and the images
// that it runs at a time. Each number of threads has its part of the images: those that run side by
// side hold no more of them together than one batch on all threads.
struct ThreadChoice {
  std::span<const int> threads;
  int max_batch_size = 1;

  int fewest() const { return threads.front(); }
  int most() const { return threads.back(); }
  // Images in a batch on so many threads at most; at least 1.
  int Room(int on) const { return std::max(1, max_batch_size * on / most()); }
  // The fewest that have room for `images`, of 1 .. max_batch_size.
  int FewestFor(int images) const;
};

// What waits for the device, and what is free of it.
struct ThreadDemand {
  int images = 1;        // in line for such batches, or soon to be; >= 1
  int first_images = 1;  // of the first task, which is not divided
  int free_threads = 1;  // for this model; >= 1
  Nanos left = kNever;   // until the first task's deadline
};

struct ThreadShare {
  int threads = 1;  // may be more than are free: it is to wait for them
  int images = 1;   // in the batch at most
};

// Pure. Few images get all free threads in one batch, many are divided into batches of fewer
// threads that run side by side: by the latency curves, so that all in line are done soonest. Of
// numbers of threads that do about as well the smallest is taken, which costs least device time.
// One with which the first task is in time comes before one with which it is late. Where a curve is
// not measured yet, twice the threads are taken to halve the time.
ThreadShare ChooseThreads(const ThreadChoice& choice, const ThreadDemand& demand,
                          const LatencyModels::Shape& curves);

}  // namespace fovea
