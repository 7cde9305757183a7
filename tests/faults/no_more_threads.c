// A system at its limit of threads: loaded before a server (LD_PRELOAD), lets it start as many as FOVEA_TEST_THREADS says
// and refuses the rest, as the kernel does (pids.max, ulimit -u), or refuses all while the file FOVEA_TEST_NO_THREADS is
// there. gRPC, which waits for ever for a thread, gets its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*Create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  static atomic_int started;
  Dl_info caller;
  const int is_grpcs = dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "/libgpr.so");
  const char* const most = getenv("FOVEA_TEST_THREADS");
  const char* const none = getenv("FOVEA_TEST_NO_THREADS");
  if (!is_grpcs && most && atomic_fetch_add(&started, 1) >= atoi(most)) return EAGAIN;
  if (!is_grpcs && none && access(none, F_OK) == 0) return EAGAIN;
  return ((Create)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, run, argument);
}
