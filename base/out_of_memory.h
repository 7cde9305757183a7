// What a request gets whose memory cannot be had.
#pragma once

#include <new>
#include <utility>

#include "base/status.h"

namespace fovea {

// Of an allocation that failed, wherever it was.
inline absl::Status OutOfMemory() {
  return Unavailable("server.out_of_memory", "the server has no memory left for this request");
}

// What `work` returns, an absl::Status or StatusOr; OutOfMemory where it throws std::bad_alloc. For
// work that allocates as much as a caller's bytes or a model's outputs ask for: uncaught, the
// exception ends the process, or on a thread of gRPC's is swallowed there and the call is never
// answered. Small allocations are not guarded: where they fail, nothing can go on.
template <typename Work>
auto OrOutOfMemory(Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace fovea
