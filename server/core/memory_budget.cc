#include "server/core/memory_budget.h"

#include "base/check.h"

namespace fovea {

MemoryBudget::Hold::~Hold() {
  // A hold of nothing may outlive its budget.
  if (budget_ != nullptr && bytes_ != 0) budget_->Give(bytes_);
}

bool MemoryBudget::Hold::TryGrow(int64_t more) {
  FOVEA_CHECK(budget_ != nullptr);
  std::optional<Hold> grown = budget_->TryHold(more);
  if (!grown) return false;
  grown->budget_ = nullptr;  // its bytes are this one's
  bytes_ += more;
  return true;
}

void MemoryBudget::Hold::ShrinkTo(int64_t bytes) {
  FOVEA_CHECK(bytes >= 0);
  if (budget_ == nullptr || bytes_ <= bytes) return;
  budget_->Give(bytes_ - bytes);
  bytes_ = bytes;
}

int64_t MemoryBudget::held() const {
  MutexLock lock(mutex_);
  return held_;
}

std::optional<MemoryBudget::Hold> MemoryBudget::TryHold(int64_t bytes) {
  MutexLock lock(mutex_);
  if (!waiting_.empty() || !Take(bytes)) return std::nullopt;
  return Hold(this, bytes);
}

std::optional<MemoryBudget::Hold> MemoryBudget::AwaitHold(int64_t bytes, Nanos until, Rank rank,
                                                          Cancellation* cancellation) {
  FOVEA_CHECK(bytes <= capacity_);
  if (bytes == 0) return Open();
  std::optional<Cancellation::Listener> listener;
  if (cancellation != nullptr) listener.emplace(*cancellation, [this] { Wake(); });
  MutexLock lock(mutex_);
  const auto turn = waiting_.insert(rank);
  bool taken = false;
  while (turn != waiting_.begin() || !(taken = Take(bytes))) {
    if (waits_ended_ || (until != kNever && clock_.Now() >= until)) break;
    if (cancellation != nullptr && cancellation->Cancelled()) break;
    clock_.WaitUntil(changed_, mutex_, until);
  }
  waiting_.erase(turn);
  changed_.NotifyAll();  // the next one's turn has come
  if (!taken) return std::nullopt;
  return Hold(this, bytes);
}

void MemoryBudget::EndWaits() {
  MutexLock lock(mutex_);
  waits_ended_ = true;
  changed_.NotifyAll();
}

void MemoryBudget::Wake() {
  // Whoever looked before the lock was free waits by now.
  { MutexLock lock(mutex_); }
  changed_.NotifyAll();
}

Nanos MemoryBudget::last_given() const {
  MutexLock lock(mutex_);
  return last_given_;
}

bool MemoryBudget::Take(int64_t bytes) {
  FOVEA_CHECK(bytes >= 0);
  if (bytes > capacity_ - held_) return false;
  held_ += bytes;
  return true;
}

void MemoryBudget::Give(int64_t bytes) {
  {
    const Nanos now = clock_.Now();
    MutexLock lock(mutex_);
    held_ -= bytes;
    last_given_ = now;
    if (waiting_.empty()) return;
  }
  changed_.NotifyAll();
}

}  // namespace fovea
