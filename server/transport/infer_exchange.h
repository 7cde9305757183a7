// One inference request between its received bytes and its encoded answer: what unary calls and
// streams share.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/core/clock.h"
#include "server/core/inference_service.h"
#include "server/core/memory_budget.h"
#include "server/core/model_catalog.h"
#include "server/core/model_statistics.h"
#include "server/transport/encoded_message.h"
#include "server/transport/oip_codec.h"
#include "server/transport/request_gate.h"
#include "server/transport/transport_observer.h"

namespace fovea {

// What the services of one server share. Outlives them.
struct TransportContext {
  InferenceService& inference;
  ModelCatalog& catalog;
  const StatisticsSource& statistics;
  Clock& clock;
  TransportObserver* observer;  // null: nobody is told
  int64_t max_message_bytes;
  // Of all requests together, beside their messages.
  MemoryBudget memory;

  std::atomic<bool> serving = false;
  RequestGate gate;
};

// An RPC that carries images: how its messages are read and written.
struct InferMethod {
  std::string_view name;
  absl::Status (*read)(const ReceivedBytes& message, CheckModel check_model,
                       InferenceRequest* request);
  EncodedMessage (*write)(InferenceResponse& response, const Clock& clock);
};
extern const InferMethod kModelInfer;
extern const InferMethod kModelStreamInfer;  // `write` gives a ModelInferResponse
extern const InferMethod kClassify;

struct InferAnswer {
  absl::Status status;     // the error, or OK and
  EncodedMessage message;  // the response
  std::string id;          // the request's, as far as it could be read
};

// A request that has just arrived in a call. Its cancellation is the caller's to cancel; `memory`
// is the caller's too, who keeps it until the answer has left the server.
std::unique_ptr<InferenceRequest> NewRequest(const grpc::CallbackServerContext& call,
                                             const Clock& clock, RequestMemory& memory);

// Reads `message` into `request` and has it answered. `done` is called exactly once, perhaps before
// this returns, on any thread. `pass` is what the caller got at the context's gate, and keeps until
// the answer has left the server; UNAVAILABLE where it is empty. A result that comes after the
// request's deadline is none: DEADLINE_EXCEEDED. Before `done`, the request's memory has shrunk to
// what the answer takes.
void Exchange(TransportContext& context, const InferMethod& method, const RequestGate::Pass& pass,
              const grpc::ByteBuffer& message, std::unique_ptr<InferenceRequest> request,
              std::function<void(InferAnswer)> done);

}  // namespace fovea
