// gRPC's credentials of a port with TLS.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/transport/connections/tls_certificate.h"

namespace fovea {

// Each new connection is given what `certificates` holds then; callers need a certificate where it
// has issuers. (gRPC's own FileWatcherCertificateProvider reads the files by itself, and takes what
// does not fit together too.)
std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(
    std::shared_ptr<const TlsCertificates> certificates);

}  // namespace fovea
