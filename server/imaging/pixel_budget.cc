#include "server/imaging/pixel_budget.h"

#include "absl/strings/str_cat.h"
#include "server/core/check.h"

namespace fovea {

PixelBudget::Reservation::~Reservation() {
  if (budget_ != nullptr) budget_->reserved_.fetch_sub(bytes_, std::memory_order_relaxed);
}

absl::StatusOr<PixelBudget::Reservation> PixelBudget::Reserve(int64_t bytes) {
  FOVEA_CHECK(bytes >= 0);
  if (bytes > capacity_) {
    return ResourceExhausted("image.too_large_to_decode",
                             absl::StrCat("decoding the image takes ", bytes,
                                          " bytes; this server has ", capacity_, " for all"));
  }
  int64_t reserved = reserved_.load(std::memory_order_relaxed);
  do {
    if (reserved > capacity_ - bytes) {
      return Unavailable("image.memory", "too many decoded images are in memory now");
    }
  } while (!reserved_.compare_exchange_weak(reserved, reserved + bytes, std::memory_order_relaxed));
  return Reservation(this, bytes);
}

}  // namespace fovea
