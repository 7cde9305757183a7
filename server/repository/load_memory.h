// Bounds the memory that models take while several load at a time.
#pragma once

#include <cstdint>

#include "server/core/mutex.h"

namespace fovea {

// Thread-safe.
class LoadMemory {
 public:
  explicit LoadMemory(int64_t bytes) : bytes_(bytes) {}

  // What one load holds, as long as the object lives.
  class Share {
   public:
    // Blocks until `bytes` fit beside what other loads hold. More than there is at all waits until
    // nobody else holds any: a large model loads alone.
    Share(LoadMemory& memory, int64_t bytes) : memory_(memory), bytes_(bytes) {
      MutexLock lock(memory_.mutex_);
      while (memory_.held_ > 0 && memory_.held_ + bytes_ > memory_.bytes_) {
        memory_.changed_.Wait(memory_.mutex_);
      }
      memory_.held_ += bytes_;
    }
    ~Share() {
      MutexLock lock(memory_.mutex_);
      memory_.held_ -= bytes_;
      memory_.changed_.NotifyAll();
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    LoadMemory& memory_;
    const int64_t bytes_;
  };

 private:
  const int64_t bytes_;
  Mutex mutex_;
  CondVar changed_;
  int64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace fovea
