#include <poll.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/experiment_json.h"
#include "client/cpp/cli/experiment_text.h"
#include "client/cpp/cli/interruption.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

// "model=NAME/VERSION,attention=knn:k=9,exact,weight=0.1,shadow": of `model` where it names none.
absl::StatusOr<ExperimentArm> ParseArm(const std::string& text, const ModelId& model) {
  ExperimentArm arm{.variant = {.model = model}};
  std::optional<double> weight;
  bool in_attention = false;  // whose options have commas between them
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const bool was_in_attention = std::exchange(in_attention, false);
    if (absl::ConsumePrefix(&part, "model=")) {
      auto named = ParseModel(std::string(part));
      if (!named.ok()) return named.status();
      arm.variant.model = *std::move(named);
    } else if (absl::ConsumePrefix(&part, "attention=") && !part.empty()) {
      arm.variant.attention = std::string(part);
      in_attention = true;
    } else if (absl::ConsumePrefix(&part, "weight=")) {
      double number = 0;
      if (!absl::SimpleAtod(part, &number) || !std::isfinite(number) || number < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", part, "' is no weight: write a number, for example weight=0.1"));
      }
      weight = number;
    } else if (part == "shadow") {
      arm.shadow = true;
    } else if (was_in_attention && !part.empty()) {
      absl::StrAppend(&arm.variant.attention, ",", part);
      in_attention = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is no arm: write model=NAME, attention=ATTENTION, weight=W, ",
                       "shadow, with commas between them"));
    }
  }
  arm.weight = weight.value_or(arm.shadow ? 0 : 1);
  return arm;
}

absl::StatusOr<ExperimentPlan> PlanOf(const StartExperimentOptions& options) {
  auto model = ParseModel(options.model);
  if (!model.ok()) return model.status();
  if (!model->version.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("requests that name a version are not shared "
                     "out: write --model ",
                     model->name));
  }
  ExperimentPlan plan = options.plan;
  plan.model_name = model->name;
  plan.arms.push_back({.variant = {.model = *model}, .weight = options.baseline_weight});
  for (const std::string& text : options.arms) {
    auto arm = ParseArm(text, *model);
    if (!arm.ok()) return arm.status();
    plan.arms.push_back(*std::move(arm));
  }
  return plan;
}

ExitCode PrintOne(const absl::StatusOr<Experiment>& experiment, bool json, const Console& console) {
  if (!experiment.ok()) return Report(console, experiment.status());
  if (json) {
    console.out << ExperimentJson(*experiment) << '\n';
  } else {
    PrintExperiment(*experiment, console.out, console.colour);
  }
  return kOk;
}

ExitCode Watch(Client& client, const ShowExperimentOptions& options, const Console& console) {
  const Interruption interruption([&] { client.Stop(); });
  for (bool first = true;; first = false) {
    const auto experiment = client.GetExperiment(options.name, options.call);
    if (interruption.happened()) return kInterrupted;
    if (!experiment.ok()) return Report(console, experiment.status());
    if (options.json) {
      console.out << ExperimentJsonLine(*experiment) << '\n';
    } else {
      if (console.colour) {
        console.out << "\033[H\033[2J";
      } else if (!first) {
        console.out << '\n';
      }
      PrintExperiment(*experiment, console.out, console.colour);
    }
    console.out << std::flush;
    if (experiment->state != ExperimentState::kRunning) return kOk;
    pollfd signal{.fd = interruption.descriptor(), .events = POLLIN, .revents = 0};
    const auto pause = std::min(options.every, absl::Hours(24));
    ::poll(&signal, 1, static_cast<int>(absl::ToInt64Milliseconds(pause)));
    if (interruption.happened()) return kInterrupted;
  }
}

}  // namespace

ExitCode RunStartExperiment(Client& client, const StartExperimentOptions& options,
                            const Console& console) {
  const auto plan = PlanOf(options);
  if (!plan.ok()) return ReportUsage(console, std::string(plan.status().message()));
  const auto experiment = client.StartExperiment(*plan, options.call);
  if (!experiment.ok()) {
    return Report(console, WhyNotReady(client, plan->arms.front().variant.model,
                                       experiment.status(), options.call));
  }
  return PrintOne(experiment, options.json, console);
}

ExitCode RunShowExperiment(Client& client, const ShowExperimentOptions& options,
                           const Console& console) {
  if (options.watch) return Watch(client, options, console);
  return PrintOne(client.GetExperiment(options.name, options.call), options.json, console);
}

ExitCode RunListExperiments(Client& client, const ListExperimentsOptions& options,
                            const Console& console) {
  const auto experiments = client.ListExperiments(options.call);
  if (!experiments.ok()) return Report(console, experiments.status());
  if (options.json) {
    console.out << ExperimentsJson(*experiments) << '\n';
  } else if (experiments->empty()) {
    console.out << "There is no experiment.\n";
  } else {
    PrintExperiments(*experiments, console.out, console.colour);
  }
  return kOk;
}

ExitCode RunStopExperiment(Client& client, const StopExperimentOptions& options,
                           const Console& console) {
  return PrintOne(client.StopExperiment(options.name, options.call), options.json, console);
}

ExitCode RunDeleteExperiment(Client& client, const DeleteExperimentOptions& options,
                             const Console& console) {
  const absl::Status status = client.DeleteExperiment(options.name, options.call);
  if (!status.ok()) return Report(console, status);
  console.out << "deleted " << Printable(options.name) << '\n';
  return kOk;
}

}  // namespace fovea::client
