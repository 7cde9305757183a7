#include "server/core/request_memory.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace fovea {

absl::Status RequestMemory::Take(int64_t bytes) {
  if (hold_.bytes() + bytes > budget_.capacity()) {
    return ResourceExhausted("request.memory",
                             absl::StrCat("the request and its answer take ", hold_.bytes() + bytes,
                                          " bytes beside the message; this "
                                          "server has ",
                                          budget_.capacity(), " for all (--request-memory)"));
  }
  if (hold_.TryGrow(bytes)) {
    bytes_ = hold_.bytes();
    return absl::OkStatus();
  }
  return Unavailable("server.request_memory",
                     "the server's memory for requests is in use: try again");
}

}  // namespace fovea
