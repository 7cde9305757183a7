#include "server/repository/janitor.h"

#include <utility>

namespace fovea {

Janitor::Janitor() : thread_([this] { Work(); }) {}

Janitor::~Janitor() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

std::shared_ptr<Servable> Janitor::Adopt(std::shared_ptr<Servable> servable,
                                         std::function<void()> gone) {
  {
    MutexLock lock(mutex_);
    ++adopted_;
  }
  Servable* const pointer = servable.get();
  return std::shared_ptr<Servable>(
      pointer, [this, retired = Retired{std::move(servable), std::move(gone)}](Servable*) mutable {
        Retire(std::move(retired));
      });
}

void Janitor::Retire(Retired retired) {
  MutexLock lock(mutex_);
  retired_.push_back(std::move(retired));
  changed_.NotifyAll();
}

void Janitor::Work() {
  while (true) {
    Retired next;
    {
      MutexLock lock(mutex_);
      while (retired_.empty()) {
        if (closing_ && adopted_ == 0) return;
        changed_.Wait(mutex_);
      }
      next = std::move(retired_.front());
      retired_.pop_front();
    }
    next.servable.reset();
    next.gone();
    MutexLock lock(mutex_);
    --adopted_;
  }
}

}  // namespace fovea
