// Memory that runs out at a given moment: loaded before a server (LD_PRELOAD), it counts the allocations of at least
// FOVEA_TEST_LEAST_BYTES, wherever they come from but for gRPC's own, and lets one of them fail. gRPC ends the process where one of its
// own fails (gpr_malloc aborts, MemoryAllocator::MakeSlice writes through null). The test shares the file FOVEA_TEST_ALLOCATIONS with
// it: three int64, the number of the allocation that fails (0: none), how many were counted, how many have failed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct Control {
  atomic_long fails, counted, failed;
};
static struct Control* control;
static size_t least;

__attribute__((constructor)) static void Open(void) {
  const char* bytes = getenv("FOVEA_TEST_LEAST_BYTES");
  const char* path = getenv("FOVEA_TEST_ALLOCATIONS");
  if (bytes == NULL || path == NULL) return;
  const int file = open(path, O_RDWR);
  if (file < 0) abort();
  least = strtoul(bytes, NULL, 10);
  control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (control == MAP_FAILED) abort();
  close(file);
}

static int Fails(size_t size, const void* caller) {
  if (control == NULL || size < least) return 0;
  Dl_info library;
  if (dladdr(caller, &library) && (strstr(library.dli_fname, "/libgpr.so") || strstr(library.dli_fname, "/libgrpc.so"))) return 0;
  const long number = atomic_fetch_add(&control->counted, 1) + 1;
  if (number != atomic_load(&control->fails)) return 0;
  atomic_fetch_add(&control->failed, 1);
  errno = ENOMEM;
  return 1;
}

// glibc's own, which need no dlsym: that allocates.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return Fails(size, __builtin_return_address(0)) ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return Fails(count * size, __builtin_return_address(0)) ? NULL : __libc_calloc(count, size); }
void* realloc(void* memory, size_t size) { return Fails(size, __builtin_return_address(0)) ? NULL : __libc_realloc(memory, size); }
void* memalign(size_t alignment, size_t size) { return Fails(size, __builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return Fails(size, __builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  if (Fails(size, __builtin_return_address(0))) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory == NULL ? ENOMEM : 0;
}
