// A disk that does not answer: loaded before a server (LD_PRELOAD), makes every read of a file at an offset wait for as
// long as the file named by FOVEA_TEST_HANG is there, and says in it that somebody waits. What the kernel does to a read
// of a lost network disk.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

typedef ssize_t (*Pread)(int, void*, size_t, off_t);

ssize_t pread(int file, void* to, size_t count, off_t offset) {
  const char* hang = getenv("FOVEA_TEST_HANG");
  while (hang != NULL && access(hang, F_OK) == 0) {
    const int said = open(hang, O_WRONLY);
    if (said >= 0) {
      if (write(said, "hangs", 5) < 0) abort();
      close(said);
    }
    usleep(20000);
  }
  return ((Pread)dlsym(RTLD_NEXT, "pread"))(file, to, count, offset);
}
ssize_t pread64(int file, void* to, size_t count, off_t offset) { return pread(file, to, count, offset); }
