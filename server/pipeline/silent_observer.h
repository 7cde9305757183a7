// An observer that counts nothing: of models that nobody watches.
#pragma once

#include "server/pipeline/model_observer.h"

namespace fovea {

class SilentObserver : public ModelObserver {
 public:
  void OnAnswered(Protocol, absl::StatusCode, const StageTimes&) override {}
  void OnQueueDepth(int, int) override {}
  void OnRejected(int, Rejection) override {}
  void OnDropped(int, Rejection) override {}
  void OnBatchClosed(const Batch&) override {}
  void OnBatchDone(int, Nanos) override {}
  void OnBatch(const BatchRun&) override {}
};

}  // namespace fovea
