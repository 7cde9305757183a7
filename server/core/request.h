// An inference request and its answer between the stages: no wire format, no framework.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/request_memory.h"
#include "server/core/stages.h"
#include "server/core/tensor.h"

namespace fovea {

struct RequestedOutput {
  std::string name;
  // Triton's classification extension: so many "<value>:<index>[:<label>]" strings instead of the
  // numbers; 0: numbers.
  int64_t classification = 0;
};

struct InferenceRequest {
  std::string model_name;
  std::string model_version;  // empty: the latest that is served
  std::string id;
  std::vector<InputTensor> inputs;
  std::vector<RequestedOutput> outputs;  // empty: every output of the model
  // Classes wanted for each image, best first, with labels and confidences (VisionService); 0:
  // none.
  int top_k = 0;
  uint64_t priority = 0;    // as the caller gave it: 1 first, 0 the model's default
  Nanos deadline = kNever;  // steady time
  CancellationPtr cancellation = std::make_shared<Cancellation>();
  StageTimes stages;  // started at the message's arrival
  // Its transport's, which keeps it until the answer has left; null: nobody counts.
  RequestMemory* memory = nullptr;

  absl::Status TakeMemory(int64_t bytes) {
    return memory == nullptr ? absl::OkStatus() : memory->Take(bytes);
  }
};

// Hears of a request as soon as its model's name and version are known, wherever in the message
// they stand, and before any work is done for its tensors. An error refuses the request.
using CheckModel = absl::FunctionRef<absl::Status(const InferenceRequest& head)>;

struct ClassScore {
  int index = 0;
  std::string label;  // empty where the model has no labels
  float confidence = 0;
  float logit = 0;
};

struct InferenceResponse {
  std::string model_name;
  std::string model_version;
  std::string id;
  std::string attention;  // canonical text
  bool untrained = false;
  std::vector<OutputTensor> outputs;
  std::vector<std::vector<ClassScore>> classes;  // one list an image, where top_k was asked for
  Receipt receipt;  // the encode stage is still running: the transport ends it
};

// Receives the answer of one request: called exactly once, on any thread; must return quickly and
// not block.
using InferenceCallback = std::function<void(absl::StatusOr<InferenceResponse>, StageTimes)>;

}  // namespace fovea
