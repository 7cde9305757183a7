// What this process holds, for tests of what it may hold.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace fovea {

// AddressSanitizer keeps what is freed for a while, to find who uses it still.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kFreedMemoryIsGivenBack = false;
#else
inline constexpr bool kFreedMemoryIsGivenBack = true;
#endif

// Of physical memory, the process's, shared libraries included.
inline int64_t ResidentBytes() {
  int64_t size = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// Of it, what is in use: without what was freed and malloc keeps for later.
inline int64_t ResidentBytesInUse() {
  malloc_trim(0);
  return ResidentBytes();
}

}  // namespace fovea
