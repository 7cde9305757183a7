#include "server/lifecycle/signals.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "server/core/check.h"

namespace fovea {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void BlockSignals() {
  const sigset_t signals = StopSignals();
  FOVEA_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  FOVEA_CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
}

SignalThread::SignalThread(std::function<void(int count)> on_signal)
    : thread_([this, on_signal = std::move(on_signal)] {
        const sigset_t signals = StopSignals();
        for (int count = 1;; ++count) {
          int number = 0;
          FOVEA_CHECK(sigwait(&signals, &number) == 0);
          if (stopping_.load()) return;
          on_signal(count);
        }
      }) {}

SignalThread::~SignalThread() {
  stopping_.store(true);
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

}  // namespace fovea
