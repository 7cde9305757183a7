// systemd, where it started the server (Type=notify).
#pragma once

#include <string>

namespace fovea {

// `state` as sd_notify(3) has it: "READY=1", "STATUS=...", a line each. Does nothing where no
// service manager waits for it.
void NotifyServiceManager(const std::string& state);

}  // namespace fovea
