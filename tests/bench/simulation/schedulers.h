// The two ways to batch that are compared, under the same arrivals on the same simulated device.
#pragma once

#include "server/core/clock.h"
#include "tests/bench/simulation/outcome.h"
#include "tests/bench/simulation/workload.h"

namespace fovea::bench {

// What a run takes, besides what the model says: a factor of this spread.
inline constexpr double kRunTimeNoise = 0.1;

// The server's own Dispatcher, with the defaults of a model and the latencies that a warm-up
// measures. Ends the process where the Dispatcher breaks its contract.
struct DispatcherOptions {
  // Models share the device by what their requests need of it (rate_limiter_priority), as an
  // operator would set it who knows his traffic. Otherwise equally, as by default.
  bool weights_by_demand = false;
};
Outcome RunDispatcher(const Workload& workload, int device_threads,
                      const DispatcherOptions& options);

// Batching as Triton's dynamic batcher does it, without a view of deadlines: a batch is due when it
// is full or its first request has waited for the delay; due models take turns by their oldest
// request. It is simpler than the real one where that is in its favour: a due batch goes on filling
// until a thread is free, and batches of different models do not slow each other down.
struct FixedDelayOptions {
  Nanos max_queue_delay = 5 * kMillisecond;
  // Requests send their deadline as their timeout, and the policy rejects what has timed out when
  // a batch is formed. Otherwise all is run, as by default.
  bool timeouts = false;
};
Outcome RunFixedDelay(const Workload& workload, int device_threads,
                      const FixedDelayOptions& options);

}  // namespace fovea::bench
