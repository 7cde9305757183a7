// Loaded before a server (LD_PRELOAD): where it tells the kernel after how many seconds to ask whether a caller is still
// there, and how often, the kernel hears of a sixtieth of that: of one second instead of a minute, and of no less.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

typedef int (*Set)(int, int, int, const void*, socklen_t);

int setsockopt(int socket, int level, int name, const void* value, socklen_t size) {
  int sooner;
  if (level == IPPROTO_TCP && (name == TCP_KEEPIDLE || name == TCP_KEEPINTVL)) {
    sooner = *(const int*)value / 60;
    if (sooner < 1) sooner = 1;
    value = &sooner;
  }
  return ((Set)dlsym(RTLD_NEXT, "setsockopt"))(socket, level, name, value, size);
}
