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
  // Most first; together the pass. "none" is what no operator is.
  std::vector<Part> parts;
  std::chrono::duration<double, std::milli> pass;
  // Without the profiler, with all threads and with one.
  std::chrono::duration<double, std::milli> unwatched, by_one_thread;
  int threads = 0;

  // The share of all threads' time that the same work does not take with one thread: at barriers,
  // in parts that one thread does alone, or for memory that they share.
  double Lost() const { return 1 - by_one_thread.count() / (threads * unwatched.count()); }
};

// Of a prepared model, on ATen's threads, in an arena as served: the medians of so many passes,
// after those that make what later ones use. While passes are watched each operator takes about a
// microsecond more.
PassProfile ProfilePass(const Model& model, const at::Tensor& pixels, int passes);

}  // namespace fovea::models
