// inference.GRPCInferenceService over gRPC's callback API. Every method is raw: it parses for
// itself, because the library answers UNIMPLEMENTED where a message does not parse.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "proto/inference/inference.grpc.pb.h"
#include "server/transport/grpc/infer_exchange.h"
#include "server/transport/grpc/infer_stream.h"

namespace fovea {

namespace oip_service_internal {

// The generated service with each method made raw by the generated wrapper of its name.
template <template <typename> typename... Wrappers>
struct RawMethods;
template <>
struct RawMethods<> {
  using Service = inference::GRPCInferenceService::Service;
};
template <template <typename> typename First, template <typename> typename... Rest>
struct RawMethods<First, Rest...> {
  using Service = First<typename RawMethods<Rest...>::Service>;
};

using Generated = inference::GRPCInferenceService;
using RawService = RawMethods<
    Generated::WithRawCallbackMethod_ServerLive, Generated::WithRawCallbackMethod_ServerReady,
    Generated::WithRawCallbackMethod_ModelReady, Generated::WithRawCallbackMethod_ServerMetadata,
    Generated::WithRawCallbackMethod_ModelMetadata, Generated::WithRawCallbackMethod_ModelInfer,
    Generated::WithRawCallbackMethod_ModelStreamInfer, Generated::WithRawCallbackMethod_ModelConfig,
    Generated::WithRawCallbackMethod_ModelStatistics,
    Generated::WithRawCallbackMethod_RepositoryIndex,
    Generated::WithRawCallbackMethod_RepositoryModelLoad,
    Generated::WithRawCallbackMethod_RepositoryModelUnload,
    Generated::WithRawCallbackMethod_SystemSharedMemoryStatus,
    Generated::WithRawCallbackMethod_SystemSharedMemoryRegister,
    Generated::WithRawCallbackMethod_SystemSharedMemoryUnregister,
    Generated::WithRawCallbackMethod_CudaSharedMemoryStatus,
    Generated::WithRawCallbackMethod_CudaSharedMemoryRegister,
    Generated::WithRawCallbackMethod_CudaSharedMemoryUnregister,
    Generated::WithRawCallbackMethod_TraceSetting,
    Generated::WithRawCallbackMethod_LogSettings>::Service;

}  // namespace oip_service_internal

class OipService final : public oip_service_internal::RawService {
 public:
  using Call = grpc::CallbackServerContext;
  using Buffer = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;

  OipService(GrpcContext& context, InferStreams& streams)
      : context_(context), api_(context.api), streams_(streams) {}

  Unary* ServerLive(Call*, const Buffer*, Buffer*) override;
  Unary* ServerReady(Call*, const Buffer*, Buffer*) override;
  Unary* ModelReady(Call*, const Buffer*, Buffer*) override;
  Unary* ServerMetadata(Call*, const Buffer*, Buffer*) override;
  Unary* ModelMetadata(Call*, const Buffer*, Buffer*) override;
  Unary* ModelInfer(Call*, const Buffer*, Buffer*) override;
  grpc::ServerBidiReactor<Buffer, Buffer>* ModelStreamInfer(Call*) override;
  Unary* ModelConfig(Call*, const Buffer*, Buffer*) override;
  Unary* ModelStatistics(Call*, const Buffer*, Buffer*) override;
  Unary* RepositoryIndex(Call*, const Buffer*, Buffer*) override;
  Unary* RepositoryModelLoad(Call*, const Buffer*, Buffer*) override;
  Unary* RepositoryModelUnload(Call*, const Buffer*, Buffer*) override;
  Unary* SystemSharedMemoryStatus(Call*, const Buffer*, Buffer*) override;
  Unary* SystemSharedMemoryRegister(Call*, const Buffer*, Buffer*) override;
  Unary* SystemSharedMemoryUnregister(Call*, const Buffer*, Buffer*) override;
  Unary* CudaSharedMemoryStatus(Call*, const Buffer*, Buffer*) override;
  Unary* CudaSharedMemoryRegister(Call*, const Buffer*, Buffer*) override;
  Unary* CudaSharedMemoryUnregister(Call*, const Buffer*, Buffer*) override;
  Unary* TraceSetting(Call*, const Buffer*, Buffer*) override;
  Unary* LogSettings(Call*, const Buffer*, Buffer*) override;

 private:
  GrpcContext& context_;
  ServerApi& api_;
  InferStreams& streams_;
};

}  // namespace fovea
