// Ctrl-C that ends a command in order.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

namespace fovea::client {

// While it lives, the first SIGINT calls `stop` on a thread of its own instead of ending the
// process; a second one ends it, as always. Where the process was started to ignore SIGINT, it goes
// on doing so. One at a time in a process.
class Interruption {
 public:
  explicit Interruption(std::function<void()> stop);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  bool happened() const;
  // Becomes readable at the SIGINT, for poll(2).
  int descriptor() const { return pipe_[0]; }

 private:
  int pipe_[2];
  struct sigaction before_;
  std::jthread watcher_;  // last: it reads the others
};

}  // namespace fovea::client
