// What the ports prove themselves with, and which callers they ask for a certificate: PEM text that
// was checked before anything uses it.
#pragma once

#include <openssl/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/mutex.h"

namespace fovea {

struct TlsCertificate {
  std::string chain;      // the server's own certificate first, then those that lead to its issuer
  std::string key;        // of the first
  std::string client_ca;  // issuers of callers' certificates; empty: callers need none
  int64_t expires = 0;    // the server's own, in seconds since 1970
};

// `now` in seconds since 1970. INVALID_ARGUMENT: no certificate (tls.certificate), no key or one
// behind a passphrase (tls.key), a key of another certificate (tls.key_mismatch), one that has
// expired or is not valid yet (tls.expired, tls.not_yet_valid), no issuers in `client_ca`, where it
// is not empty (tls.client_ca), what OpenSSL finds too weak (tls.weak).
absl::StatusOr<TlsCertificate> CheckTlsCertificate(std::string chain, std::string key,
                                                   std::string client_ca, int64_t now);

// Issuers of somebody's certificates. INVALID_ARGUMENT tls.issuers: they are no PEM certificates.
absl::Status CheckIssuers(const std::string& issuers);

// Makes a context speak as HTTP's ports do: TLS 1.2 or newer with forward secrecy, HTTP/1.1 by
// ALPN, callers' certificates asked for where there are issuers, no resumption (who has been let in
// once is checked again). CheckTlsCertificate's errors.
absl::Status ConfigureTls(const TlsCertificate& certificate, SSL_CTX* context);

// Whom a caller's certificate names, as gRPC chooses: the first alternative name, or else the
// common name. Empty: it has shown none.
std::string PeerName(const SSL* connection);

// The certificate for new connections. Thread-safe.
class TlsCertificates {
 public:
  explicit TlsCertificates(TlsCertificate first) { Replace(std::move(first)); }

  std::shared_ptr<const TlsCertificate> current() const {
    MutexLock lock(mutex_);
    return current_;
  }
  // Connections that are there go on with what they have.
  void Replace(TlsCertificate next) {
    auto replaced = std::make_shared<const TlsCertificate>(std::move(next));
    MutexLock lock(mutex_);
    current_.swap(replaced);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const TlsCertificate> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
