// SIGTERM and SIGINT as events on a thread of their own: gRPC's shutdown must not be called from a
// signal handler.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace fovea {

// Blocks SIGTERM and SIGINT in the calling thread and every thread that it starts later, and
// ignores SIGPIPE: to be called before any other thread is started.
void BlockSignals();

// Waits for the blocked signals on its own thread. Not thread-safe.
class SignalThread {
 public:
  // `on_signal(count)` runs on the signal thread at each SIGTERM or SIGINT; count starts at 1.
  explicit SignalThread(std::function<void(int count)> on_signal);
  ~SignalThread();

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace fovea
