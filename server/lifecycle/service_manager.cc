#include "server/lifecycle/service_manager.h"

#include <systemd/sd-daemon.h>

namespace fovea {

void NotifyServiceManager(const std::string& state) {
  sd_notify(/*unset_environment=*/0, state.c_str());
}

}  // namespace fovea
