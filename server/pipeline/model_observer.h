// Who counts what one loaded version does.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "server/core/model_catalog.h"
#include "server/core/stages.h"
#include "server/executor/batch_executor.h"
#include "server/scheduler/observer.h"

namespace fovea {

// Thread-safe.
class ModelObserver : public SchedulerObserver, public ExecutionObserver {
 public:
  // An answer to a request for the version is handed to the wire.
  virtual void OnAnswered(Protocol protocol, absl::StatusCode code, const StageTimes& stages) = 0;
  // A thread of imaging's is free so much earlier, because nobody waited for an image any more when
  // its turn came. At least so much: an estimate. Who does not count it leaves it.
  virtual void OnImagingSaved(Nanos /*time*/) {}
  // Threads of imaging's have spent so much on a request that has ended, whatever became of it. Who
  // does not count it leaves it.
  virtual void OnImagingTime(Nanos /*time*/) {}
  // The same of a request that nobody waited for any more when it ended.
  virtual void OnImagingWasted(Nanos /*time*/) {}
};

// Makes the observer of a version that is about to serve.
using ModelObserverFactory =
    std::function<std::unique_ptr<ModelObserver>(const std::shared_ptr<const ModelView>& model)>;

}  // namespace fovea
