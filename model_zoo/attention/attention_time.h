// How long attention alone takes inside a pass, without the projections around it.
#pragma once

#include <chrono>
#include <optional>

namespace fovea::models {

// Adds up what the calling thread spends in regions of attention between its construction and its
// destruction, their helpers' work waited for. It looks at a clock twice for each attention, so
// that a pass whose own time counts may be watched. One at a time in a thread.
class AttentionTime {
 public:
  enum class Mode {
    kAsServed,
    // Attention is an operator of its own also in modules that serve it folded into their
    // projections: what it takes compares with other attentions' then. Results differ by rounding.
    kApart,
  };

  explicit AttentionTime(Mode mode = Mode::kAsServed);
  ~AttentionTime() { current_ = nullptr; }
  AttentionTime(const AttentionTime&) = delete;
  AttentionTime& operator=(const AttentionTime&) = delete;

  // None: there was no region, as in a model of convolutions.
  std::optional<std::chrono::nanoseconds> total() const { return total_; }
  // Whether a module ran its attention folded into its projections, where no region has it.
  bool folded() const { return folded_; }

  // Whether a module on this thread may do so. It is noted: the module does.
  static bool MayFold();

 private:
  friend class AttentionRegion;
  using Clock = std::chrono::steady_clock;

  inline static thread_local AttentionTime* current_ = nullptr;

  const Mode mode_;
  int depth_ = 0;  // of the regions that are entered
  Clock::time_point entered_;
  std::optional<std::chrono::nanoseconds> total_;
  bool folded_ = false;
};

// Lives while an attention runs: from queries, keys and values to what each head gathers. Those of
// AttentionCore have theirs already; a module that attends without a core has one of its own. A
// region within a region counts once.
class AttentionRegion {
 public:
  AttentionRegion();
  ~AttentionRegion();
  AttentionRegion(const AttentionRegion&) = delete;
  AttentionRegion& operator=(const AttentionRegion&) = delete;

 private:
  AttentionTime* const time_;  // null: nobody watches
};

}  // namespace fovea::models
