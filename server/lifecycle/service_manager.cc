#include "server/lifecycle/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/file_descriptor.h"

namespace fovea {

// A datagram to a socket that the environment names: libsystemd does no more, and would bring five
// libraries for compression and ciphers into the process.
void NotifyServiceManager(const std::string& state) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr) return;
  sockaddr_un address{.sun_family = AF_UNIX};
  const size_t length = std::strlen(name);
  if (length < 2 || length >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';  // a name that is no file's
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return;
  // Does not block: if the message is lost, the service manager's own timeout reports it.
  [[maybe_unused]] const ssize_t sent =
      sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
             reinterpret_cast<const sockaddr*>(&address),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

}  // namespace fovea
