// A model's devices and what runs it on them, made of what the server has.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/executor/batch_executor.h"
#include "server/pipeline/served_model.h"

namespace fovea {

// What a model that is arranged so runs on: at least one.
absl::StatusOr<std::vector<std::unique_ptr<LaneDevice>>> DevicesOf(
    const LaneArrangement& arrangement, const ServedModel::Environment& environment);

// BatchExecutor::Create, with its errors. Where a GPU is lost meanwhile, the environment is told
// (on_gpu_lost).
absl::StatusOr<std::unique_ptr<BatchExecutor>> CreateExecutor(
    const BatchExecutorOptions& options, std::unique_ptr<LaneDevice> device,
    const ServedModel::Environment& environment, const WarmUpProgress& progress);

}  // namespace fovea
