// How much memory decoded pixels may take at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "server/core/status.h"

namespace fovea {

// Thread-safe. Outlives its reservations.
class PixelBudget {
 public:
  // Gives its bytes back when it goes.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Reservation();

   private:
    friend class PixelBudget;
    Reservation(PixelBudget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}
    PixelBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit PixelBudget(int64_t capacity_bytes) : capacity_(capacity_bytes) {}

  // Never waits. UNAVAILABLE image.memory when too much is reserved now; RESOURCE_EXHAUSTED
  // image.too_large_to_decode when `bytes` will never fit.
  absl::StatusOr<Reservation> Reserve(int64_t bytes);

  int64_t reserved_bytes() const { return reserved_.load(std::memory_order_relaxed); }

 private:
  const int64_t capacity_;
  std::atomic<int64_t> reserved_{0};
};

}  // namespace fovea
