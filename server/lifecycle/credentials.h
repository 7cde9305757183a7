// TLS certificates and API keys: read from the files that the command line names, checked, and read
// again when they change.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/api/authenticator.h"
#include "server/core/clock.h"
#include "server/lifecycle/options.h"
#include "server/lifecycle/reloaded_files.h"
#include "server/observe/metrics.h"
#include "server/transport/connections/tls_certificate.h"

namespace fovea {

// Thread-safe. `metrics` outlives it.
class Credentials {
 public:
  // Reads TLS' files. INVALID_ARGUMENT: one that cannot be read, or whose content cannot be used.
  // Later such files leave what was there, are logged and counted.
  static absl::StatusOr<std::unique_ptr<Credentials>> Create(const ServerOptions& options,
                                                             Metrics& metrics, Clock& clock);

  // Gives the keys of the file to `authenticator`, which outlives this, now and when it changes.
  // Before any port opens. Errors as above, and UNAVAILABLE: no thread.
  absl::Status Guard(Authenticator& authenticator);

  // Null where the ports have no TLS.
  const std::shared_ptr<TlsCertificates>& tls() const { return tls_; }

 private:
  Credentials(const ServerOptions& options, Metrics& metrics, Clock& clock);
  absl::Status AddTls();

  const ServerOptions options_;
  Metrics& metrics_;
  std::shared_ptr<TlsCertificates> tls_;
  ReloadedFiles files_;  // last: its thread uses the others
};

}  // namespace fovea
