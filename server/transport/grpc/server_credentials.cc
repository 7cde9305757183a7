#include "server/transport/grpc/server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "server/core/mutex.h"

namespace fovea {
namespace {

// Name of the property of a connection that counts its calls.
constexpr char kCalls[] = "fovea_calls";

// Counts calls by connection. gRPC keeps a context for each connection, in which the count lives as
// a property.
class CallCounter {
 public:
  CallCounter(int64_t calls, std::function<void()> on_many_calls)
      : calls_(calls), on_many_calls_(std::move(on_many_calls)) {}

  grpc_auth_metadata_processor processor() {
    return {.process = Process, .destroy = nullptr, .state = this};
  }

 private:
  static void Process(void* self, grpc_auth_context* connection, const grpc_metadata*, size_t,
                      grpc_process_auth_metadata_done_cb done, void* call) {
    static_cast<CallCounter*>(self)->Count(connection);
    done(call, nullptr, 0, nullptr, 0, GRPC_STATUS_OK, nullptr);
  }

  void Count(grpc_auth_context* connection) {
    int64_t& count = CountOf(connection);
    if (std::atomic_ref(count).fetch_add(1) % calls_ == calls_ - 1) on_many_calls_();
  }

  int64_t& CountOf(grpc_auth_context* connection) {
    // A connection's second call may come while the first adds the property.
    MutexLock lock(mutex_);
    if (int64_t* const count = Find(connection)) return *count;
    const int64_t none = 0;
    grpc_auth_context_add_property(connection, kCalls, reinterpret_cast<const char*>(&none),
                                   sizeof(none));
    return *Find(connection);
  }

  static int64_t* Find(grpc_auth_context* connection) {
    grpc_auth_property_iterator found =
        grpc_auth_context_find_properties_by_name(connection, kCalls);
    const grpc_auth_property* const count = grpc_auth_property_iterator_next(&found);
    // gRPC's allocations are aligned for any type.
    return count == nullptr ? nullptr : reinterpret_cast<int64_t*>(count->value);
  }

  const int64_t calls_;
  const std::function<void()> on_many_calls_;
  Mutex mutex_;
};

// gRPC's C++ API has no credentials that fetch their certificate, nor any without TLS that can
// count calls. The core library below it has both.
class CountingCredentials final : public grpc::ServerCredentials {
 public:
  CountingCredentials(std::shared_ptr<const TlsCertificates> certificates, int64_t calls,
                      std::function<void()> on_many_calls)
      : counter_(calls, std::move(on_many_calls)),
        certificates_(std::move(certificates)),
        credentials_(certificates_ == nullptr ? grpc_insecure_server_credentials_create() : Tls()) {
    grpc_server_credentials_set_auth_metadata_processor(credentials_, counter_.processor());
  }
  ~CountingCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  grpc_server_credentials* Tls() {
    // A flag says whether callers need a certificate; that does not change.
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            certificates_->current()->client_ca.empty()
                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
            Fetch, this));
  }

  // Called before each handshake, one at a time.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<CountingCredentials*>(self)->Fetch(config);
  }
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config) {
    std::shared_ptr<const TlsCertificate> current = certificates_->current();
    if (current == given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{current->key.c_str(), current->chain.c_str()};
    // gRPC requires issuers even if callers need no certificate, and then ignores them.
    const std::string& issuers = current->client_ca.empty() ? current->chain : current->client_ca;
    *config = grpc_ssl_server_certificate_config_create(issuers.c_str(), &pair, 1);
    given_ = std::move(current);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  CallCounter counter_;
  const std::shared_ptr<const TlsCertificates> certificates_;
  std::shared_ptr<const TlsCertificate> given_;
  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<const TlsCertificates> certificates, int64_t calls,
    std::function<void()> on_many_calls) {
  return std::make_shared<CountingCredentials>(std::move(certificates), calls,
                                               std::move(on_many_calls));
}

}  // namespace fovea
