// Destroys servables on a thread of its own: the destructor drains and joins, and must not run on a
// request's thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "server/core/mutex.h"
#include "server/repository/servable.h"

namespace fovea {

// Thread-safe.
class Janitor {
 public:
  Janitor();
  // Waits for every handle to be released and every servable to be destroyed.
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  // A handle to `servable`, whose last copy may be released on any thread, quickly. The servable is
  // then destroyed on the janitor's thread, and `gone` called there.
  std::shared_ptr<Servable> Adopt(std::shared_ptr<Servable> servable, std::function<void()> gone);

 private:
  struct Retired {
    std::shared_ptr<Servable> servable;
    std::function<void()> gone;
  };

  void Retire(Retired retired);
  void Work();

  Mutex mutex_;
  CondVar changed_;
  std::deque<Retired> retired_ ABSL_GUARDED_BY(mutex_);
  int adopted_ ABSL_GUARDED_BY(mutex_) = 0;  // not yet gone
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace fovea
