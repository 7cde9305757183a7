// What a program prints reaches its standard output, or the program fails. Needs no library: the
// programs without Abseil include it, too.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace fovea {

// Has the process, when it exits, write what its standard output still holds. Where that fails or
// an earlier write did, because a disk is full for example, it reports so on standard error and
// exits with 1, whatever the exit code would have been. `program`: a literal, for the report. To be
// called once, by programs whose output is their result.
inline void FailWhereOutputIsLost(const char* program) {
  static const char* reporting = program;
  std::atexit([] {
    errno = 0;
    const bool stream_failed = !std::cout.flush();
    const bool file_failed = std::ferror(stdout) != 0;
    const bool flush_failed = std::fflush(stdout) != 0;
    if (!stream_failed && !file_failed && !flush_failed) return;
    // An earlier failure has left no errno behind.
    std::fprintf(stderr, "%s: cannot write standard output%s%s\n", reporting,
                 errno == 0 ? "" : ": ", errno == 0 ? "" : std::strerror(errno));
    _exit(1);
  });
}

}  // namespace fovea
