// Why a model does not answer.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/client.h"
#include "client/cpp/variant.h"

namespace fovea::client {

// `error` of a call to `model`. Where it may come from a model that is not ready (NOT_FOUND, and
// UNAVAILABLE without a reason token), the server is asked for its index, and the error says
// besides why the model is not ready: what made its load fail, or that the repository has no such
// model, with the one that was probably meant. Every other error is returned as it is.
absl::Status WhyNotReady(Client& client, const ModelId& model, const absl::Status& error,
                         const CallOptions& call);

// The same of a call to several models.
absl::Status WhyNotReady(Client& client, std::span<const Variant> variants,
                         const absl::Status& error, const CallOptions& call);

// Why a live server is not ready: the models that are loading or failed, or else that it is
// starting or stopping.
std::string WhyNotReady(Client& client, const CallOptions& call);

}  // namespace fovea::client
