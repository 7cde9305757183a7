// Where the time of a pass goes, by what its operators do.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <string_view>
#include <vector>

#include "model_zoo/model.h"

namespace fovea::models {

struct PassProfile {
  struct Part {
    std::string_view name;
    std::chrono::duration<double, std::milli> time;
  };
  // Most first, each the median of its own passes, so that together they are about the pass.
  std::vector<Part> parts;
  std::chrono::duration<double, std::milli> pass;
  // Without the profiler, with all threads and with one.
  std::chrono::duration<double, std::milli> unwatched, by_one_thread;
  int threads = 0;

  // 1 where so many threads take that part of one thread's time. What is missing goes at barriers,
  // in parts that one thread does alone, or for memory that they share.
  double ParallelEfficiency() const {
    return by_one_thread.count() / (threads * unwatched.count());
  }
};

// Of a prepared model, on ATen's threads, in an arena as served: the medians of so many passes,
// after those that make what later ones use. While passes are watched each operator takes about a
// microsecond more.
PassProfile ProfilePass(const Model& model, const at::Tensor& pixels, int passes);

}  // namespace fovea::models
