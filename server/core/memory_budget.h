// How many bytes may be held at once.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Outlives its holds. It counts what it is told, and allocates nothing.
class MemoryBudget {
 public:
  // Bytes that are taken; they are given back when it goes. Move-only; not thread-safe.
  class [[nodiscard]] Hold {
   public:
    Hold() = default;  // of no budget
    Hold(Hold&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Hold();

    int64_t bytes() const { return budget_ == nullptr ? 0 : bytes_; }
    // Takes `more` bytes if they are to be had now; says whether. Not of a hold of no budget.
    bool TryGrow(int64_t more);
    // Gives back what it has beyond `bytes`.
    void ShrinkTo(int64_t bytes);

   private:
    friend class MemoryBudget;
    Hold(MemoryBudget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
  };

  MemoryBudget(int64_t capacity_bytes, Clock& clock) : capacity_(capacity_bytes), clock_(clock) {}

  int64_t capacity() const { return capacity_; }
  int64_t held() const;

  // A hold of no bytes, to be grown. Never refused.
  Hold Open() { return Hold(this, 0); }

  // Never waits. Nothing where so much is not to be had now, or somebody waits for his turn.
  std::optional<Hold> TryHold(int64_t bytes);

  // Where somebody stands among those who wait: the least first, and of equals who came first.
  struct Rank {
    int priority = 0;
    Nanos order = 0;
    auto operator<=>(const Rank&) const = default;  // NOLINT: it compares with a literal 0
  };
  // Waits for its turn: the large are not passed by the small for ever. `bytes` are at most the
  // capacity; none of them need no turn. Nothing where the turn has not come by `until`, or before
  // `cancellation`, which may be null, is set: the next one's turn then comes at once. Who waits
  // holds nothing of this budget: two that waited for each other's bytes would never end.
  std::optional<Hold> AwaitHold(int64_t bytes, Nanos until, Rank rank,
                                Cancellation* cancellation = nullptr);
  // From now on nobody waits: who does gets nothing.
  void EndWaits();
  // When bytes were given back for the last time; 0 where none were.
  Nanos last_given() const;

 private:
  bool Take(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Give(int64_t bytes);
  // Makes everyone who waits look again.
  void Wake();

  const int64_t capacity_;
  Clock& clock_;
  mutable Mutex mutex_;
  CondVar changed_;  // for those that wait
  int64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanos last_given_ ABSL_GUARDED_BY(mutex_) = 0;
  bool waits_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::multiset<Rank> waiting_ ABSL_GUARDED_BY(mutex_);  // equals in their order of arrival
};

}  // namespace fovea
