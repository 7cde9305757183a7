// Many inferences over one call: ModelStreamInfer and StreamImages.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "absl/status/status.h"
#include "server/core/mutex.h"
#include "server/core/request.h"
#include "server/transport/grpc/infer_exchange.h"
#include "server/transport/grpc/stream_codec.h"

namespace fovea {

class InferStream;

// An RPC with a stream of requests and one of answers.
struct StreamMethod {
  ApiMethod api;
  // As InferMethod's. `order`: in which the caller wants the answers, where the message tells. The
  // first that does counts.
  absl::Status (*read)(const ReceivedBytes& message, CheckModel check_model,
                       InferenceRequest* request, std::optional<AnswerOrder>* order);
  WriteMessage write;
  // What `write` gave, or an error, as a message of the stream. `number`: of the request, from 0.
  EncodedMessage (*wrap)(InferAnswer answer, uint64_t number);
  // Metadata that is "true" where the caller wants the first error as the stream's status, with no
  // answer behind it; null: none.
  const char* ends_on_error;
};
extern const StreamMethod kModelStreamInfer;
extern const StreamMethod kStreamImages;

// The open streams of a server. Thread-safe.
class InferStreams {
 public:
  // Starts a stream; it leaves by itself when it ends. One whose caller may not call ends at once.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Start(
      GrpcContext& context, const StreamMethod& method, grpc::CallbackServerContext* call);

  // Every stream, now and later, answers what it has received, takes no more, and ends UNAVAILABLE.
  void Drain();
  // Blocks until there is none or `until` has come.
  void AwaitEmpty(Clock& clock, Nanos until);

 private:
  friend class InferStream;
  void Remove(InferStream* stream);

  Mutex mutex_;  // never held while a stream is called
  CondVar empty_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_map<InferStream*, std::shared_ptr<InferStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
