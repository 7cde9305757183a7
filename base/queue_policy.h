// How requests wait in one line of a model's queue: Triton's ModelQueuePolicy, as plain data.
#pragma once

#include <cstdint>

namespace fovea {

// What becomes of a request that has waited for the timeout.
enum class TimeoutAction {
  kReject,  // it is given back with DEADLINE_EXCEEDED
  kDelay,   // it is run after every request of its priority that has not timed out
};

struct QueuePolicy {
  TimeoutAction timeout_action = TimeoutAction::kReject;
  // How long a request may wait before `timeout_action` applies, from its arrival. 0: for ever.
  int64_t default_timeout_us = 0;
  // Whether a request may name a timeout of its own; a longer one than the default does not count.
  bool allow_timeout_override = true;
  // Requests that may hold a place: reserved and in line together; those that run do not count.
  // Higher: longer bursts are absorbed, and a request may wait longer; lower: refused earlier.
  int max_queue_size = 256;

  bool operator==(const QueuePolicy&) const = default;
};

}  // namespace fovea
