#include "model_zoo/attention/attention_time.h"

#include <c10/util/Exception.h>

namespace fovea::models {

AttentionTime::AttentionTime(Mode mode) : mode_(mode) {
  TORCH_CHECK(current_ == nullptr, "a thread watches its attention once at a time");
  current_ = this;
}

bool AttentionTime::MayFold() {
  if (current_ == nullptr) return true;
  if (current_->mode_ == Mode::kApart) return false;
  current_->folded_ = true;
  return true;
}

AttentionRegion::AttentionRegion() : time_(AttentionTime::current_) {
  if (time_ != nullptr && time_->depth_++ == 0) time_->entered_ = AttentionTime::Clock::now();
}

AttentionRegion::~AttentionRegion() {
  if (time_ == nullptr || --time_->depth_ > 0) return;
  const auto took = AttentionTime::Clock::now() - time_->entered_;
  time_->total_ = time_->total_.value_or(std::chrono::nanoseconds(0)) + took;
}

}  // namespace fovea::models
