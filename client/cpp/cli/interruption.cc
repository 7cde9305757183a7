#include "client/cpp/cli/interruption.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

namespace fovea::client {
namespace {

std::atomic<int> signal_pipe = -1;
std::atomic<bool> interrupted = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void OnSignal(int) {
  const int saved = errno;
  interrupted = true;
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe, "", 1);
  errno = saved;
}

}  // namespace

Interruption::Interruption(std::function<void()> stop) {
  if (::pipe2(pipe_, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  interrupted = false;
  signal_pipe = pipe_[1];
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  ::sigaction(SIGINT, &action, &before_);
  if (before_.sa_handler == SIG_IGN) ::sigaction(SIGINT, &before_, nullptr);
  watcher_ = std::jthread([this, stop = std::move(stop)] {
    pollfd signal{.fd = pipe_[0], .events = POLLIN};
    while (::poll(&signal, 1, -1) < 0 && errno == EINTR) {
    }
    if (interrupted) stop();
  });
}

Interruption::~Interruption() {
  ::sigaction(SIGINT, &before_, nullptr);
  signal_pipe = -1;
  ::close(pipe_[1]);  // ends the watcher's wait
  watcher_.join();
  ::close(pipe_[0]);
}

bool Interruption::happened() const { return interrupted; }

}  // namespace fovea::client
