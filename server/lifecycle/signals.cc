#include "server/lifecycle/signals.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "base/check.h"

namespace fovea {
namespace {

sigset_t BlockedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGUSR1);
  return signals;
}

}  // namespace

void BlockSignals() {
  const sigset_t signals = BlockedSignals();
  FOVEA_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  FOVEA_CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  // What is written to memory counts against a limit of files' sizes; there a write fails instead.
  FOVEA_CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
}

SignalThread::SignalThread(Handlers handlers)
    : thread_([this, handlers = std::move(handlers)] {
        const sigset_t signals = BlockedSignals();
        int stops = 0;
        while (true) {
          int number = 0;
          FOVEA_CHECK(sigwait(&signals, &number) == 0);
          if (stopping_.load()) return;
          if (number == SIGHUP) {
            handlers.on_hangup();
          } else if (number == SIGUSR1) {
            handlers.on_leave();
          } else {
            handlers.on_stop(++stops);
          }
        }
      }) {}

SignalThread::~SignalThread() {
  stopping_.store(true);
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

}  // namespace fovea
