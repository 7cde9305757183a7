// Where a model shall run, and how many batches of it at a time. Plain data, as ModelDescription
// is.
#pragma once

#include <vector>

namespace fovea::models {

enum class InstanceKind { kAuto, kCpu, kGpu };

struct InstanceGroup {
  InstanceKind kind = InstanceKind::kAuto;  // kAuto: the best device that there is
  std::vector<int> gpus;                    // kGpu: their numbers, ascending; empty: all
  // Batches side by side; on GPUs, on each. 0: on a GPU two; on the CPU as many as suit the
  // requests that wait, which share its threads, or one where `threads` are given.
  int count = 0;
  int threads = 0;  // on the CPU, inside one operator; 0: the cores divided by `count`
  // Triton's weight between models: of two that always have work, one of 2 gets half the device
  // time of one of 1.
  int rate_limiter_priority = 1;
};

}  // namespace fovea::models
