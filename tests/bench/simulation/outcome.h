// What became of the requests of one simulation.
#pragma once

#include <cstdint>
#include <vector>

#include "server/core/clock.h"

namespace fovea::bench {

struct Outcome {
  int64_t arrived = 0;
  // Each of them ended in one of these ways.
  int64_t in_time = 0;    // answered before its deadline
  int64_t late = 0;       // answered after it
  int64_t refused = 0;    // on arrival
  int64_t expired = 0;    // left the queue without being run
  int64_t cancelled = 0;  // by its caller, while it waited

  int64_t run_expired = 0;  // whose deadline had passed when their batch was started
  int64_t batches = 0;
  double busy = 0;               // device time, over all threads, in seconds
  std::vector<Nanos> latencies;  // of what was answered

  int64_t answered() const { return in_time + late; }
  int64_t ended() const { return answered() + refused + expired + cancelled; }
  double MeanBatch() const { return batches == 0 ? 0 : static_cast<double>(answered()) / batches; }
  // Of the answered ones; sorts them. 0 where there are none.
  Nanos Latency(double quantile);

  void Answer(Nanos arrival, Nanos deadline, Nanos now) {
    ++(now <= deadline ? in_time : late);
    latencies.push_back(now - arrival);
  }
};

}  // namespace fovea::bench
