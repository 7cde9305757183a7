#include "server/lifecycle/credentials.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

// Certificates are valid by the wall clock.
int64_t SecondsSince1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Credentials::Credentials(const ServerOptions& options, Metrics& metrics, Clock& clock)
    : options_(options),
      metrics_(metrics),
      files_(clock, limits::kSecretFilesSeconds * kSecond, ReadOperatorFile,
             [&metrics](std::string_view label, bool taken) {
               metrics.OnCredentialReload(label, taken);
             }) {}

absl::StatusOr<std::unique_ptr<Credentials>> Credentials::Create(const ServerOptions& options,
                                                                 Metrics& metrics, Clock& clock) {
  std::unique_ptr<Credentials> credentials(new Credentials(options, metrics, clock));
  if (!options.tls_cert.empty()) FOVEA_RETURN_IF_ERROR(credentials->AddTls());
  return credentials;
}

absl::Status Credentials::Guard(Authenticator& authenticator) {
  if (!options_.api_keys_file.empty()) {
    metrics_.WatchCredentials("api_keys");
    FOVEA_RETURN_IF_ERROR(files_.Add(
        {.what = "API keys (--api-keys-file)",
         .label = "api_keys",
         .paths = {options_.api_keys_file},
         .take = [&authenticator](const std::vector<std::string>& texts) -> absl::Status {
           FOVEA_ASSIGN_OR_RETURN(std::vector<ApiKey> keys, ParseApiKeys(texts[0]));
           authenticator.SetKeys(std::move(keys));
           return absl::OkStatus();
         }}));
  }
  return files_.Start();
}

absl::Status Credentials::AddTls() {
  FileGroup files{.what = "TLS (--tls-cert, --tls-key, --tls-client-ca)",
                  .label = "tls",
                  .paths = {options_.tls_cert, options_.tls_key}};
  metrics_.WatchCredentials("tls");
  if (!options_.tls_client_ca.empty()) files.paths.push_back(options_.tls_client_ca);
  files.take = [this](const std::vector<std::string>& texts) -> absl::Status {
    const std::string client_ca = texts.size() > 2 ? texts[2] : "";
    if (texts.size() > 2 && client_ca.empty()) {
      // No issuers must not come to mean that no certificate is needed.
      return InvalidArgument("tls.client_ca", "the file of callers' issuers is empty");
    }
    FOVEA_ASSIGN_OR_RETURN(TlsCertificate certificate,
                           CheckTlsCertificate(texts[0], texts[1], client_ca, SecondsSince1970()));
    metrics_.SetTlsExpiry(certificate.expires);
    if (tls_ == nullptr) {
      tls_ = std::make_shared<TlsCertificates>(std::move(certificate));
    } else {
      tls_->Replace(std::move(certificate));
    }
    return absl::OkStatus();
  };
  return files_.Add(std::move(files));
}

}  // namespace fovea
