// fovea-check [OPTIONS] FOLDER...: everything that is wrong with model folders, before a server
// reads them. `fovea check` runs it: a program of its own, so that the command line does not have
// to load LibTorch.
#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/command_line.h"
#include "base/lost_output.h"
#include "server/check/folder_check.h"
#include "server/check/report.h"
#include "server/core/clock.h"
#include "server/core/version.h"
#include "server/executor/gpus.h"
#include "server/imaging/imaging_pool.h"
#include "server/observe/logging.h"
#include "server/pipeline/served_model.h"
#include "server/pipeline/silent_observer.h"
#include "server/pipeline/unserved_model.h"
#include "server/scheduler/scheduler.h"

namespace fovea {
namespace {

constexpr int kOk = 0, kFound = 1, kUsage = 2;

struct Options {
  std::vector<std::string> folders;
  bool warm_up = false;
  bool json = false;
};

void Say(const absl::Status& status) {
  std::cerr << "fovea-check: " << std::string(status.message()) << "\n";
}

int Fail(const absl::Status& status, int exit_code) {
  Say(status);
  return exit_code;
}

int Check(const Options& options) {
  const int threads = std::max(1U, std::thread::hardware_concurrency());
  Clock& clock = SteadyClock();
  auto scheduler = Scheduler::Create({.device_threads = threads}, clock);
  if (!scheduler.ok()) return Fail(scheduler.status(), kFound);
  auto imaging = ImagingPool::Create({.threads = 1}, clock);
  if (!imaging.ok()) return Fail(imaging.status(), kFound);
  // A server that runs may have them to itself. Models that need one are then reported.
  auto found_gpus = FindGpus(std::numeric_limits<int64_t>::max());
  if (!found_gpus.ok()) Say(found_gpus.status());
  const Gpus gpus = found_gpus.ok() ? *std::move(found_gpus) : Gpus();
  auto gpu_scheduler =
      Scheduler::Create({.device_threads = std::max(1, static_cast<int>(gpus.size()))}, clock);
  if (!gpu_scheduler.ok()) return Fail(gpu_scheduler.status(), kFound);
  const ServedModel::Environment environment{
      .scheduler = **scheduler,
      .imaging = **imaging,
      .clock = clock,
      .observe = [](const auto&) { return std::make_unique<SilentObserver>(); },
      .device_threads = threads,
      .gpus = gpus,
      .gpu_scheduler = gpu_scheduler->get()};
  const ServableFactory factory = [&](const VersionToLoad& model) {
    return options.warm_up ? ServedModel::Create(model, environment)
                           : BuildUnservedModel(model, environment);
  };
  std::vector<CheckedFolder> checked;
  for (const std::string& folder : options.folders) {
    auto found = CheckFolders(folder, factory, options.warm_up);
    if (!found.ok()) return Fail(found.status(), kUsage);
    for (CheckedFolder& one : *found) checked.push_back(std::move(one));
  }
  std::cout << (options.json ? ReportJson(checked) : ReportText(checked));
  const bool ok = std::all_of(checked.begin(), checked.end(),
                              [](const CheckedFolder& folder) { return folder.findings.empty(); });
  return ok ? kOk : kFound;
}

}  // namespace
}  // namespace fovea

int main(int argc, char** argv) {
  fovea::FailWhereOutputIsLost("fovea-check");
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // as fovea-server does
  fovea::Options options;
  CLI::App app(
      "Says everything that is wrong with model folders before they are served, no server asked",
      "fovea check");
  app.set_version_flag("--version", std::string("fovea-check ") + fovea::kVersion);
  app.add_option("FOLDER", options.folders,
                 "A model's folder, or a repository's: then all models in it")
      ->required()
      ->type_name("");
  app.add_flag(
      "--warm-up", options.warm_up,
      "Also run every batch and size, and ask the canary, as a server does before it is ready");
  app.add_flag("--json", options.json, "Print JSON instead of lines");
  app.footer(
      "Examples:\n"
      "  fovea check models/cats\n"
      "  fovea check models --json\n"
      "A line for each finding: FOLDER: FILE:LINE: what is wrong. Versions that the folder's\n"
      "version_policy serves are loaded, each by itself.\n"
      "Exit codes: 0 nothing found, 1 something found, 2 usage.\n");
  app.failure_message(fovea::RefusalMessage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? fovea::kOk : fovea::kUsage;
  }
  if (const absl::Status logging = fovea::SetUpLogging("error", "text"); !logging.ok()) {
    return fovea::Fail(logging, fovea::kFound);
  }
  return fovea::Check(options);
}
