// The protocol that a request came by.
#pragma once

#include <array>
#include <string_view>

namespace fovea {

enum class Protocol { kGrpc, kHttp };
inline constexpr std::array kProtocols = {Protocol::kGrpc, Protocol::kHttp};

// As logs and metrics name it.
constexpr std::string_view ProtocolName(Protocol protocol) {
  return protocol == Protocol::kGrpc ? "grpc" : "http";
}

}  // namespace fovea
