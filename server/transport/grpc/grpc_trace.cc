#include "server/transport/grpc/grpc_trace.h"

#include <string_view>
#include <vector>

namespace fovea {
namespace {

constexpr char kTraceParent[] = "traceparent";
constexpr char kTraceState[] = "tracestate";

std::vector<std::string_view> ValuesOf(const grpc::CallbackServerContext& call, const char* name) {
  std::vector<std::string_view> values;
  const auto [begin, end] = call.client_metadata().equal_range(name);
  for (auto value = begin; value != end; ++value) {
    values.emplace_back(value->second.data(), value->second.size());
  }
  return values;
}

}  // namespace

TraceContext TraceContextOf(const grpc::CallbackServerContext& call) {
  const std::vector<std::string_view> parents = ValuesOf(call, kTraceParent);
  if (parents.empty()) return {};
  return ReadTraceContext(parents, ValuesOf(call, kTraceState));
}

void TellTrace(const std::string& traceparent, grpc::CallbackServerContext& call) {
  if (!traceparent.empty()) call.AddTrailingMetadata(kTraceParent, traceparent);
}

}  // namespace fovea
