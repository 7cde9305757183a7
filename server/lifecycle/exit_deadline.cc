#include "server/lifecycle/exit_deadline.h"

#include <utility>

#include "server/core/log.h"

namespace fovea {

ExitDeadline::ExitDeadline(Clock& clock, std::function<void(int code)> exit)
    : clock_(clock), exit_(std::move(exit)), thread_([this] { Watch(); }) {}

ExitDeadline::~ExitDeadline() {
  {
    MutexLock lock(mutex_);
    off_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void ExitDeadline::Set(Nanos when, int code, std::string why) {
  MutexLock lock(mutex_);
  SetLocked(when, code, std::move(why));
}

void ExitDeadline::SetNoLater(Nanos when, int code, std::string why) {
  MutexLock lock(mutex_);
  if (when <= when_) SetLocked(when, code, std::move(why));
}

void ExitDeadline::SetLocked(Nanos when, int code, std::string why) {
  when_ = when;
  code_ = code;
  why_ = std::move(why);
  changed_.NotifyAll();
}

void ExitDeadline::Watch() {
  int code;
  std::string why;
  {
    MutexLock lock(mutex_);
    while (!off_ && clock_.Now() < when_) clock_.WaitUntil(changed_, mutex_, when_);
    if (off_) return;
    code = code_;
    why = std::move(why_);
  }
  Log(code == 0 ? LogLevel::kWarning : LogLevel::kError, why);
  exit_(code);
}

}  // namespace fovea
