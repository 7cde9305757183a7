// gRPC's server reflection, v1 and v1alpha, over gRPC's callback API.
//
// The library brings a service of its own, but a synchronous one: in release 1.51 each open stream
// holds a thread, and there may be any number of them.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <span>
#include <string_view>

#include "base/limits.h"
#include "proto/grpc/reflection/v1/reflection.grpc.pb.h"
#include "proto/grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/transport/grpc/infer_exchange.h"
#include "server/transport/grpc/stream_places.h"

namespace fovea {

// What the two names of the service share. Thread-safe. Outlives its streams.
class ReflectionStreams {
 public:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  // `services`: the names to tell; they outlive it.
  ReflectionStreams(GrpcContext& context, std::span<const std::string_view> services)
      : context_(context), services_(services) {}

  // Ends at once where its caller may not call, or, UNAVAILABLE, where no place is left.
  Reactor* Start(grpc::CallbackServerContext* call);

 private:
  class Stream;

  GrpcContext& context_;
  const std::span<const std::string_view> services_;
  StreamPlaces places_{limits::kMaxReflectionStreams, limits::kMaxReflectionStreamsPerConnection};
};

// `Generated`: grpc::reflection::v1::ServerReflection or v1alpha's.
template <typename Generated>
class ReflectionService final
    : public Generated::template WithRawCallbackMethod_ServerReflectionInfo<
          typename Generated::Service> {
 public:
  explicit ReflectionService(ReflectionStreams& streams) : streams_(streams) {}

  ReflectionStreams::Reactor* ServerReflectionInfo(grpc::CallbackServerContext* call) override {
    return streams_.Start(call);
  }

 private:
  ReflectionStreams& streams_;
};

}  // namespace fovea
