// The server that a command line names, and what it is shown.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace CLI {
class App;
}

namespace fovea::client {

struct ServerAccess {
  std::string address = "127.0.0.1:8001";
  std::string tls_ca, tls_cert, tls_key;  // PEM files; without the first no TLS
  std::string api_key;
};

void AddServerAccess(CLI::App& app, ServerAccess& access);

// Client::Connect's errors; INVALID_ARGUMENT too where a file cannot be read or is empty, and where
// one of the environment's variables is.
absl::StatusOr<std::unique_ptr<Client>> Connect(const ServerAccess& access);

}  // namespace fovea::client
