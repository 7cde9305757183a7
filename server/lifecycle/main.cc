#include <iostream>

#include "absl/synchronization/mutex.h"
#include "base/lost_output.h"
#include "server/core/thread_scheduling.h"
#include "server/lifecycle/available_cpus.h"
#include "server/lifecycle/check_config.h"
#include "server/lifecycle/openmp_spinning.h"
#include "server/lifecycle/options.h"
#include "server/lifecycle/pre_stop.h"
#include "server/lifecycle/server.h"
#include "server/lifecycle/signals.h"
#include "server/observe/logging.h"

namespace {

// Prints the configuration and what is wrong with it. Returns the exit code: 1 where something is.
int PrintCheck(const fovea::ParsedCommandLine& command_line) {
  std::cout << command_line.effective;
  std::vector<std::unique_ptr<fovea::RepositoryFs>> repositories;
  for (const std::string& folder : command_line.options.model_repositories) {
    repositories.push_back(fovea::MakeRepositoryFs(folder));
  }
  const auto faults = fovea::CheckConfig(command_line.options, std::move(repositories));
  for (const std::string& line : command_line.unknown_variables) std::cerr << line << '\n';
  for (const std::string& fault : faults) std::cerr << fault << '\n';
  if (command_line.exit_code != 0) return command_line.exit_code;
  return faults.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  fovea::SleepEarlyUnderAQuota(fovea::FindAvailableCpus(), argv);
  // Debian builds Abseil, and with it gRPC's every lock, to look for lock cycles. Ours are another
  // class (core/mutex), and annotated.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const fovea::ParsedCommandLine command_line = fovea::ParseCommandLine(argc, argv);
  if (!command_line.serve) fovea::FailWhereOutputIsLost("fovea-server");
  if (command_line.check) return PrintCheck(command_line);
  if (command_line.pre_stop) return fovea::RunPreStop(command_line.options.drain_delay_ms);
  if (!command_line.serve) return command_line.exit_code;
  fovea::BlockSignals();
  fovea::WaitForTimeSlices();  // all threads that are started from here on; models' end it
  const absl::Status logging =
      fovea::SetUpLogging(command_line.options.log_level, command_line.options.log_format);
  if (!logging.ok()) {
    std::cerr << "cannot start: " << logging.message() << '\n';
    return 1;
  }
  for (const std::string& line : command_line.unknown_variables) {
    fovea::Log(fovea::LogLevel::kWarning, line);
  }
  return fovea::RunServer(command_line.options);
}
