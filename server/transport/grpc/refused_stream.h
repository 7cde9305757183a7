// A streaming call that ends before it has begun.
#pragma once

#include <grpcpp/support/status.h>

namespace fovea {

// `Reactor` is one of gRPC's: grpc::ServerWriteReactor or grpc::ServerBidiReactor. Deletes itself
// when gRPC is done with the call.
template <typename Reactor>
class RefusedStream final : public Reactor {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace fovea
