// FOVEA_CHECK ends the process when an invariant is broken: a state that cannot happen is not
// handled, it is reported. On in every build. Not for input of any kind: a caller's mistake is an
// absl::Status.
#pragma once

#include <cstdio>
#include <cstdlib>

#define FOVEA_CHECK(condition)                                                           \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
