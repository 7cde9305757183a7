#include "absl/synchronization/mutex.h"
#include "server/core/thread_scheduling.h"
#include "server/lifecycle/available_cpus.h"
#include "server/lifecycle/openmp_spinning.h"
#include "server/lifecycle/options.h"
#include "server/lifecycle/server.h"
#include "server/lifecycle/signals.h"
#include "server/observe/logging.h"

int main(int argc, char** argv) {
  fovea::SleepEarlyUnderAQuota(fovea::FindAvailableCpus(), argv);
  // Debian builds Abseil, and with it gRPC's every lock, to look for lock cycles. Ours are another
  // class (core/mutex), and annotated.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const fovea::ParsedCommandLine command_line = fovea::ParseCommandLine(argc, argv);
  if (!command_line.serve) return command_line.exit_code;
  fovea::SetUpLogging(command_line.options.log_level, command_line.options.log_format);
  fovea::BlockSignals();
  fovea::WaitForTimeSlices();  // all threads that are started from here on; models' end it
  return fovea::RunServer(command_line.options);
}
