// Why a model does not answer.
#pragma once

#include "absl/status/status.h"
#include "client/cpp/client.h"

namespace fovea::client {

// `error` of a call to `model`. Where it may come from a model that is not ready (NOT_FOUND, and
// UNAVAILABLE without a reason token), the server is asked for its index, and the error says
// besides why the model is not ready: what made its load fail, or that the repository has no such
// model. Every other error is returned as it is.
absl::Status WhyNotReady(Client& client, const ModelId& model, const absl::Status& error,
                         const CallOptions& call);

}  // namespace fovea::client
