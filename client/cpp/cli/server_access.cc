#include "client/cpp/cli/server_access.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/files.h"

namespace fovea::client {
namespace {

absl::Status ReadPem(const std::string& path, std::string* text) {
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> read = ReadFile(path);
  if (!read.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " ", std::string(read.status().message())));
  }
  *text = *std::move(read);
  return absl::OkStatus();
}

}  // namespace

void AddServerAccess(CLI::App& app, ServerAccess& access) {
  app.add_option("-s,--server", access.address, "The server's gRPC address")
      ->envname("FOVEA_SERVER")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--tls-ca", access.tls_ca,
                 "Encrypt the connection: the issuers of the server's certificate, a PEM file")
      ->envname("FOVEA_TLS_CA")
      ->type_name("FILE");
  app.add_option("--tls-cert", access.tls_cert,
                 "A certificate to show to servers that ask for one, a PEM file")
      ->envname("FOVEA_TLS_CERT")
      ->type_name("FILE");
  app.add_option("--tls-key", access.tls_key, "Its key, a PEM file")
      ->envname("FOVEA_TLS_KEY")
      ->type_name("FILE");
  app.add_option(
         "--api-key", access.api_key,
         "A key for servers that want one. Others on this machine see the flag, and not the "
         "variable")
      ->envname("FOVEA_API_KEY")
      ->type_name("KEY");
}

absl::StatusOr<std::unique_ptr<Client>> Connect(const ServerAccess& access) {
  ConnectOptions options;
  options.api_key = access.api_key;
  for (const auto& [path, text] : {std::pair(&access.tls_ca, &options.tls_ca),
                                   std::pair(&access.tls_cert, &options.tls_certificate),
                                   std::pair(&access.tls_key, &options.tls_key)}) {
    if (absl::Status read = ReadPem(*path, text); !read.ok()) return read;
  }
  return Client::Connect(access.address, options);
}

}  // namespace fovea::client
