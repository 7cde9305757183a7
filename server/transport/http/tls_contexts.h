// The TLS contexts of a port: a new one where the certificate has been replaced.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <utility>

#include "base/check.h"
#include "server/transport/connections/tls_certificate.h"

namespace fovea {

// Not thread-safe: the thread's that accepts connections.
class TlsContexts {
 public:
  explicit TlsContexts(std::shared_ptr<const TlsCertificates> certificates)
      : certificates_(std::move(certificates)) {}

  // For the next connection; null where the port has no TLS.
  boost::asio::ssl::context* Current() {
    if (certificates_ == nullptr) return nullptr;
    std::shared_ptr<const TlsCertificate> certificate = certificates_->current();
    if (certificate == used_) return context_.get();
    auto context =
        std::make_unique<boost::asio::ssl::context>(boost::asio::ssl::context::tls_server);
    // It has been checked in the same way, so that only memory can be missing.
    if (ConfigureTls(*certificate, context->native_handle()).ok()) context_ = std::move(context);
    FOVEA_CHECK(context_ != nullptr);
    used_ = std::move(certificate);
    return context_.get();
  }

 private:
  const std::shared_ptr<const TlsCertificates> certificates_;
  std::shared_ptr<const TlsCertificate> used_;
  std::unique_ptr<boost::asio::ssl::context> context_;  // connections hold what they need of it
};

}  // namespace fovea
