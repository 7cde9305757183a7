// How long the operators of attention take inside a pass, without the projections around them.
#pragma once

#include <chrono>
#include <memory>

namespace fovea::models {

// Adds up what the calling thread spends in them between its construction and its destruction,
// their helpers' work waited for. Watching costs every operator of the pass about a microsecond: a
// pass whose own time counts is not watched. One at a time in a thread.
class AttentionTime {
 public:
  AttentionTime();
  ~AttentionTime();
  AttentionTime(const AttentionTime&) = delete;
  AttentionTime& operator=(const AttentionTime&) = delete;

  std::chrono::nanoseconds total() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::models
