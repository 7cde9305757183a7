#include "server/transport/grpc/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>
#include <utility>

namespace fovea {
namespace {

// gRPC's C++ has no credentials that ask for their certificate: those of the library below do.
class ReplaceableCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReplaceableCredentials(std::shared_ptr<const TlsCertificates> certificates)
      : certificates_(std::move(certificates)),
        // Whether callers need a certificate is told by a flag, and does not change.
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                certificates_->current()->client_ca.empty()
                    ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                Fetch, this))) {}
  ~ReplaceableCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  // Called before each handshake, one at a time.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<ReplaceableCredentials*>(self)->Fetch(config);
  }
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config) {
    std::shared_ptr<const TlsCertificate> current = certificates_->current();
    if (current == given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{current->key.c_str(), current->chain.c_str()};
    // gRPC wants issuers also where callers are asked for no certificate, and then uses them for
    // nothing.
    const std::string& issuers = current->client_ca.empty() ? current->chain : current->client_ca;
    *config = grpc_ssl_server_certificate_config_create(issuers.c_str(), &pair, 1);
    given_ = std::move(current);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  const std::shared_ptr<const TlsCertificates> certificates_;
  std::shared_ptr<const TlsCertificate> given_;
  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(
    std::shared_ptr<const TlsCertificates> certificates) {
  return std::make_shared<ReplaceableCredentials>(std::move(certificates));
}

}  // namespace fovea
