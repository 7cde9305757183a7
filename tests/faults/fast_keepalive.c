// Loaded before a server (LD_PRELOAD): where it tells the kernel after how many seconds to ask whether a caller is still
// there, and how often, the kernel hears of one second.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

typedef int (*Set)(int, int, int, const void*, socklen_t);

int setsockopt(int socket, int level, int name, const void* value, socklen_t size) {
  static const int second = 1;
  if (level == IPPROTO_TCP && (name == TCP_KEEPIDLE || name == TCP_KEEPINTVL)) value = &second;
  return ((Set)dlsym(RTLD_NEXT, "setsockopt"))(socket, level, name, value, size);
}
