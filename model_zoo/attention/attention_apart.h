// Attention apart from its projections, for who times it alone.
#pragma once

namespace fovea::models {

// While one lives, modules on its thread run their attention as an operator of its own, also those
// that serve it folded into their projections: what it takes compares with other attentions' then.
// Results differ by rounding. May be nested.
class AttentionApart {
 public:
  AttentionApart() { ++living_; }
  ~AttentionApart() { --living_; }
  AttentionApart(const AttentionApart&) = delete;
  AttentionApart& operator=(const AttentionApart&) = delete;

  static bool IsAskedFor() { return living_ > 0; }

 private:
  inline static thread_local int living_ = 0;
};

}  // namespace fovea::models
