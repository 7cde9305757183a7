// How long attention alone takes inside a pass, without the projections around it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "model_zoo/attention/attention_apart.h"

namespace fovea::models {

// Adds up what the calling thread spends in operators of attention between its construction and its
// destruction, their helpers' work waited for: from queries, keys and values to what each head
// gathers, for every attention alike. Modules run them apart meanwhile (attention_apart.h), and
// watching costs every operator of the pass about a microsecond: a pass whose own time counts is
// not watched. One at a time in a thread.
class AttentionTime {
 public:
  AttentionTime();
  ~AttentionTime();
  AttentionTime(const AttentionTime&) = delete;
  AttentionTime& operator=(const AttentionTime&) = delete;

  // None: no operator of attention was run, as in a model of convolutions.
  std::optional<std::chrono::nanoseconds> total() const;

 private:
  const AttentionApart apart_;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::models
