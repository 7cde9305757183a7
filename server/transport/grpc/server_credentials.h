// gRPC's credentials of a port.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "server/transport/connections/tls_certificate.h"

namespace fovea {

// With `certificates`, which may be null, each new connection is given what they hold then; callers
// need a certificate where it has issuers. (gRPC's own FileWatcherCertificateProvider reads the
// files by itself, and takes what does not fit together too.)
//
// Credentials are also asked about each call as its headers arrive, long before gRPC hands the call
// on. `on_many_calls` runs each time that one connection has begun `calls` more, on the thread that
// reads that connection, which reads on when it returns. It does not throw.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<const TlsCertificates> certificates, int64_t calls,
    std::function<void()> on_many_calls);

}  // namespace fovea
