// Why there is no connection to a server, for people.
#pragma once

#include <string>

namespace fovea::client {

// One sentence with the cause and what to look at: an unknown host, nothing that listens, something
// that listens and does not speak gRPC. `address` is one that gRPC could not connect to: it does
// not say why, so each of the host's addresses is tried once more, for a second at most.
std::string WhyNoConnection(const std::string& address);

}  // namespace fovea::client
