#include "client/cpp/cli/server_access.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/files.h"

namespace fovea::client {
namespace {

constexpr char kServer[] = "FOVEA_SERVER", kTlsCa[] = "FOVEA_TLS_CA", kTlsCert[] = "FOVEA_TLS_CERT",
               kTlsKey[] = "FOVEA_TLS_KEY", kApiKey[] = "FOVEA_API_KEY";

// What somebody left out would mean no encryption, or no key.
const CLI::Validator kNotEmpty(
    [](const std::string& text) {
      return text.empty() ? "is empty; leave the flag out where there is none" : "";
    },
    "");

// CLI11 takes a variable that is set and empty for one that is absent.
absl::Status CheckVariables() {
  for (const char* name : {kServer, kTlsCa, kTlsCert, kTlsKey, kApiKey}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value != '\0') continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is set and empty: unset it where there is none"));
  }
  return absl::OkStatus();
}

absl::Status ReadPem(const std::string& path, std::string* text) {
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> read = ReadFile(path);
  if (!read.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " ", std::string(read.status().message())));
  }
  if (read->empty()) return absl::InvalidArgumentError(absl::StrCat(path, " is empty"));
  *text = *std::move(read);
  return absl::OkStatus();
}

}  // namespace

void AddServerAccess(CLI::App& app, ServerAccess& access) {
  app.add_option("-s,--server", access.address, "The server's gRPC address")
      ->envname(kServer)
      ->check(kNotEmpty)
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--tls-ca", access.tls_ca,
                 "Encrypt the connection: the issuers of the server's certificate, a PEM file")
      ->envname(kTlsCa)
      ->check(kNotEmpty)
      ->type_name("FILE");
  app.add_option("--tls-cert", access.tls_cert,
                 "A certificate to show to servers that ask for one, a PEM file")
      ->envname(kTlsCert)
      ->check(kNotEmpty)
      ->type_name("FILE");
  app.add_option("--tls-key", access.tls_key, "Its key, a PEM file")
      ->envname(kTlsKey)
      ->check(kNotEmpty)
      ->type_name("FILE");
  app.add_option(
         "--api-key", access.api_key,
         "A key for servers that want one. Others on this machine see the flag, and not the "
         "variable")
      ->envname(kApiKey)
      ->check(kNotEmpty)
      ->type_name("KEY");
}

absl::StatusOr<std::unique_ptr<Client>> Connect(const ServerAccess& access) {
  if (absl::Status checked = CheckVariables(); !checked.ok()) return checked;
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
