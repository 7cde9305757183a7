#include "server/transport/grpc/grpc_caller.h"

#include <grpcpp/security/auth_context.h>

#include <string>
#include <string_view>
#include <vector>

namespace fovea {
namespace {

constexpr char kAuthorization[] = "authorization";

std::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

}  // namespace

Caller CallerOf(const GrpcContext& context, ApiMethod method,
                const grpc::CallbackServerContext& call) {
  std::vector<std::string_view> authorization;
  const auto [begin, end] = call.client_metadata().equal_range(kAuthorization);
  for (auto value = begin; value != end; ++value) authorization.push_back(View(value->second));
  ShownCredentials shown{.protocol = Protocol::kGrpc, .authorization = authorization};
  std::vector<grpc::string_ref> names;
  const auto certificate = call.auth_context();
  if (certificate != nullptr && certificate->IsPeerAuthenticated()) {
    names = certificate->GetPeerIdentity();
    if (!names.empty()) shown.certificate = View(names[0]);
  }
  return context.api.authenticator().Identify(shown, method.group, context.groups);
}

}  // namespace fovea
