// W3C Trace Context over gRPC.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "server/tracing/trace_context.h"

namespace fovea {

// Of the call's metadata.
TraceContext TraceContextOf(const grpc::CallbackServerContext& call);

// Adds `traceparent` to the call's trailing metadata, where there is one. Before the call's Finish,
// once.
void TellTrace(const std::string& traceparent, grpc::CallbackServerContext& call);

}  // namespace fovea
