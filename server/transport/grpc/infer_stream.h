// ModelStreamInfer: many inferences over one call.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <unordered_map>

#include "server/core/mutex.h"
#include "server/transport/grpc/infer_exchange.h"

namespace fovea {

class InferStream;

// The open streams of a server. Thread-safe.
class InferStreams {
 public:
  // Starts a stream; it leaves by itself when it ends.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Start(
      GrpcContext& context, grpc::CallbackServerContext* call);

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
