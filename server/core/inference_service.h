// The way into the server behind the transport.
#pragma once

#include <memory>

#include "server/core/request.h"

namespace fovea {

// Thread-safe.
class InferenceService {
 public:
  virtual ~InferenceService() = default;

  // Takes the request and returns quickly, without decoding or running anything on the caller's
  // thread. `done` is called exactly once: with the answer, or with the error of the stage that
  // ended it. It may be called before Infer returns. Cancelling the request's Cancellation ends it
  // early.
  virtual void Infer(std::unique_ptr<InferenceRequest> request, InferenceCallback done) = 0;
};

}  // namespace fovea
