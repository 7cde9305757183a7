// A system at its limit of threads: loaded before a server (LD_PRELOAD), lets it start as many as FOVEA_TEST_THREADS says
// and refuses the rest, as the kernel does (pids.max, ulimit -u). gRPC, which waits for ever for a thread, gets its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  static atomic_int started;
  Dl_info caller;
  const int is_grpcs = dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "/libgpr.so");
  if (!is_grpcs && atomic_fetch_add(&started, 1) >= atoi(getenv("FOVEA_TEST_THREADS"))) return EAGAIN;
  return ((Create)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, run, argument);
}
