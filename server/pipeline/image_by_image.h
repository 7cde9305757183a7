// A request for several pictures of a model that keeps their shape, as a request for each: they may
// run at different sizes, and what is found in one does not depend on the others.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "server/admission/request_rules.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"

namespace fovea {

bool GoesImageByImage(const AcceptedInput& input, const ModelView& model);

// Calls `run` with a request for each image of `input`, which is `request`'s, before it returns.
// `done` is called once, when all are: with their results in order, none of which is copied, and
// the receipt of the last that was ready, or with the first error, which names its image and
// cancels the others. Cancelling `request` cancels all. UNAVAILABLE server.out_of_memory or
// RequestMemory::Take's errors, and `run` is not called: there is no memory to make the requests.
void RunImageByImage(
    std::unique_ptr<InferenceRequest> request, const AcceptedInput& input, InferenceCallback done,
    absl::FunctionRef<void(std::unique_ptr<InferenceRequest>, InferenceCallback)> run);

}  // namespace fovea
