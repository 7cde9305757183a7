// Who counts what one loaded version does.
#pragma once

#include <functional>
#include <memory>

#include "server/core/model_catalog.h"
#include "server/executor/batch_executor.h"
#include "server/scheduler/observer.h"

namespace fovea {

// Thread-safe.
class ModelObserver : public SchedulerObserver, public ExecutionObserver {};

// Makes the observer of a version that is about to serve.
using ModelObserverFactory =
    std::function<std::unique_ptr<ModelObserver>(const std::shared_ptr<const ModelView>& model)>;

}  // namespace fovea
