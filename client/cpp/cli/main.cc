#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/lost_output.h"
#include "client/cpp/cli/app.h"

int main(int argc, char** argv) {
  fovea::FailWhereOutputIsLost("fovea");
  // The command says in its own words what fails; gRPC's log would stand between them.
  ::setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string(terminal) == "dumb";
  const fovea::client::Console console = {
      .out = std::cout,
      .err = std::cerr,
      .colour = ::isatty(STDOUT_FILENO) == 1 && !dumb && std::getenv("NO_COLOR") == nullptr,
      .progress = ::isatty(STDERR_FILENO) == 1 && !dumb,
      .command = fovea::client::CommandText(arguments),
  };
  return fovea::client::RunFovea(arguments, console);
}
