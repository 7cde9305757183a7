// What a scheduler has told its observer.
#pragma once

#include <algorithm>
#include <map>
#include <string_view>

#include "server/scheduler/observer.h"

namespace fovea {

class Counts final : public SchedulerObserver {
 public:
  void OnQueueDepth(int waiting, int reserved) override {
    waiting_ = waiting;
    reserved_ = reserved;
    deepest_ = std::max(deepest_, waiting + reserved);
  }
  void OnRejected(int, Rejection reason) override { ++rejected_[RejectionName(reason)]; }
  void OnDropped(int, Rejection reason) override { ++dropped_[RejectionName(reason)]; }
  void OnBatchClosed(const Batch& batch) override {
    ++closed_[CloseReasonName(batch.why)];
    images_ += batch.images;
  }
  void OnBatchDone(int, Nanos duration) override { busy_ += duration; }
  void OnWorkSaved(Nanos time) override { saved_ += time; }

  int waiting_ = -1;
  int reserved_ = -1;
  int deepest_ = 0;
  int images_ = 0;
  Nanos busy_ = 0;
  Nanos saved_ = 0;
  std::map<std::string_view, int> rejected_;
  std::map<std::string_view, int> dropped_;
  std::map<std::string_view, int> closed_;
};

}  // namespace fovea
