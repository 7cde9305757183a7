// Signals as events on a thread of their own: gRPC's shutdown must not be called from a signal
// handler.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace fovea {

// Blocks SIGTERM, SIGINT, SIGHUP and SIGUSR1 in the calling thread and every thread that it starts
// later, and ignores SIGPIPE: to be called before any other thread is started.
void BlockSignals();

// Waits for the blocked signals on its own thread. Not thread-safe.
class SignalThread {
 public:
  struct Handlers {
    std::function<void(int count)> on_stop;  // at each SIGTERM or SIGINT; count starts at 1
    std::function<void()> on_hangup;         // at each SIGHUP
    std::function<void()> on_leave;          // at each SIGUSR1, which --pre-stop sends
  };
  // They run on the signal thread, and must return quickly.
  explicit SignalThread(Handlers handlers);
  ~SignalThread();

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace fovea
