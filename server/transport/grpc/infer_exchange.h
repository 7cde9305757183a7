// One inference request between gRPC's bytes and the server's api: what unary calls and streams
// share.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/limits.h"
#include "server/api/api_methods.h"
#include "server/api/server_api.h"
#include "server/core/clock.h"
#include "server/core/request.h"
#include "server/tracing/tracer.h"
#include "server/transport/grpc/encoded_message.h"
#include "server/transport/grpc/oip_codec.h"
#include "server/transport/messages/shared_tensors.h"

namespace fovea {

// What the services of one port share. Outlives them.
struct GrpcContext {
  ServerApi& api;
  const int64_t max_message_bytes;
  const size_t max_answer_bytes;
  const ApiGroups groups;  // that the port answers
  // Of one stream: requests that have been taken and whose answers have not left.
  const size_t max_stream_requests = limits::kMaxStreamRequestsInFlight;
};

// How the messages of an RPC that carries images are read; WriteMessage is how they are written.
using ReadMessage = absl::FunctionRef<absl::Status(
    const ReceivedBytes& message, CheckModel check_model, InferenceRequest* request)>;

struct InferAnswer {
  absl::Status status;     // the error, or OK and
  EncodedMessage message;  // the response
  std::string id;          // the request's, as far as it could be read
};

// One request of `call`, whose message has just arrived.
class InferExchange {
 public:
  // `trace`: what the request belongs to.
  InferExchange(GrpcContext& context, ApiMethod method, const grpc::CallbackServerContext& call,
                TraceParent trace);

  // Reads `message` and has the request answered, as InferenceCall::Run. `done` is called exactly
  // once, perhaps before this returns, on any thread; until then this object lives.
  void Run(const grpc::ByteBuffer& message, ReadMessage read, WriteMessage write,
           std::function<void(InferAnswer)> done);

  InferenceCall& call() { return call_; }

 private:
  GrpcContext& context_;
  InferenceCall call_;
  SharedOutputs shared_outputs_;
  bool typed_contents_ = false;  // as the request's WantedTensors
  EncodedMessage message_;       // the answer, until `done` has it
};

}  // namespace fovea
