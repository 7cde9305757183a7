// Whether an address can be listened on, told with what to do about it. gRPC's own error says only
// that it failed.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace fovea {

// `port_flag` is the flag that gave the port: "--grpc-port". INVALID_ARGUMENT: no such host;
// UNAVAILABLE: the host is no address of this machine, or the port is taken or forbidden.
absl::Status CheckListenAddress(const std::string& host, int port, std::string_view port_flag);

}  // namespace fovea
