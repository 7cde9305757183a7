// The answer of a call that tells how it goes on, in lines of JSON.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/core/mutex.h"
#include "server/transport/http/http_exchange.h"

namespace fovea {

// One line is written at a time: of the updates that come meanwhile the latest is next, and the
// last line is written always. Lines end with a line end. Thread-safe; a line that is on its way
// keeps this alive.
class UpdateLines : public std::enable_shared_from_this<UpdateLines> {
 public:
  explicit UpdateLines(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}

  void Tell(std::string line);
  // Nothing is told afterwards. Where nothing was, the answer is an ordinary one; otherwise an
  // error is a line, as ErrorAnswer has it.
  void End(absl::StatusOr<std::string> line);

 private:
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<HttpExchange> exchange_;
  Mutex mutex_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::string> next_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
