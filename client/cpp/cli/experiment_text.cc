#include "client/cpp/cli/experiment_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/comparison_text.h"
#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

using Align = Table::Align;
using Test = SequentialTest;

struct Words {
  const char* lower;
  const char* higher;
};

std::string TestText(const Test& test, const Words& words, const std::string& numbers) {
  // An interval has no end before there are enough observations.
  if (!std::isfinite(test.upper)) {
    return absl::StrCat("undecided: too few yet (", test.observations, ")");
  }
  switch (test.verdict) {
    case Test::Verdict::kUndecided:
      return "undecided: " + numbers;
    case Test::Verdict::kLower:
      return absl::StrCat(words.lower, ": ", numbers);
    case Test::Verdict::kHigher:
      return absl::StrCat(words.higher, ": ", numbers);
    case Test::Verdict::kEquivalent:
      return "equivalent: " + numbers;
    case Test::Verdict::kUnknown:
      return numbers;
  }
  return numbers;
}

std::string Shares(const Test& test) {
  return absl::StrCat(Percent(test.estimate), " [", Fixed(100 * test.lower, 1), ", ",
                      Fixed(100 * test.upper, 1), "]");
}

std::string TextOr(const std::optional<Test>& test, std::string (*text)(const Test&)) {
  return test ? text(*test) : "-";
}

// With the plan's name, because another attention answers under a name of its own, and with the
// version that answers, which the plan may have left out.
std::string ModelOf(const Experiment& experiment, size_t arm) {
  return ModelText(
      {experiment.plan.arms[arm].variant.model.name, experiment.arms[arm].model.version});
}

bool AnyShadows(const Experiment& experiment) {
  return std::ranges::any_of(experiment.plan.arms, &ExperimentArm::shadow);
}

// "10.0 %", "shadow", "10.0 % and shadow".
std::string TrafficText(const ExperimentArm& arm, double all_weights) {
  if (arm.weight <= 0) return arm.shadow ? "shadow" : "none";
  return absl::StrCat(Percent(arm.weight / all_weights), arm.shadow ? " and shadow" : "");
}

void PrintTraffic(const Experiment& experiment, std::ostream& out, bool colour) {
  std::vector<Table::Column> columns = {{"ARM"},
                                        {"MODEL"},
                                        {"TRAFFIC", Align::kRight},
                                        {"REQUESTS", Align::kRight},
                                        {"FAILED", Align::kRight}};
  const bool shadows = AnyShadows(experiment);
  if (shadows)
    columns.insert(columns.end(), {{"COPIES", Align::kRight}, {"SKIPPED", Align::kRight}});
  columns.push_back({"MEAN ms", Align::kRight});
  Table table(columns);
  double all_weights = 0;
  for (const ExperimentArm& arm : experiment.plan.arms) all_weights += arm.weight;
  for (size_t i = 0; i < experiment.arms.size(); ++i) {
    const ArmReport& arm = experiment.arms[i];
    const ExperimentArm& planned = experiment.plan.arms[i];
    std::vector<std::string> cells = {arm.name, ModelOf(experiment, i),
                                      TrafficText(planned, all_weights), absl::StrCat(arm.requests),
                                      absl::StrCat(arm.failures)};
    if (shadows) {
      cells.push_back(planned.shadow ? absl::StrCat(arm.shadow_requests) : "");
      cells.push_back(planned.shadow ? absl::StrCat(arm.shadow_skipped) : "");
    }
    cells.push_back(arm.requests > 0 ? Fixed(arm.mean_latency_ms, 2) : "-");
    table.AddRow(std::move(cells));
  }
  table.Print(out, colour);
}

void PrintTests(const Experiment& experiment, std::ostream& out, bool colour) {
  Table table({{"AGAINST " + Printable(experiment.arms[0].name)},
               {"LATENCY"},
               {"OTHER ANSWERS"},
               {"MORE FAILURES"}});
  for (size_t i = 1; i < experiment.arms.size(); ++i) {
    const ArmReport& arm = experiment.arms[i];
    table.AddRow({arm.name, TextOr(arm.latency_ratio, LatencyText),
                  TextOr(arm.disagreement, DisagreementText),
                  TextOr(arm.error_excess, ErrorsText)});
  }
  table.Print(out, colour);
}

std::string RunningText(const Experiment& experiment) {
  const absl::Duration whole = absl::Trunc(experiment.running, absl::Seconds(1));
  return whole == absl::ZeroDuration() ? "0s" : absl::FormatDuration(whole);
}

// The first line: how it stands, and where the traffic goes.
std::string Summary(const Experiment& experiment) {
  const ExperimentPlan& plan = experiment.plan;
  std::string text = absl::StrCat(plan.name, ": ", StateText(experiment.state));
  if (experiment.state == ExperimentState::kRunning) {
    return absl::StrCat(text, " for ", RunningText(experiment), " on the traffic of ",
                        plan.model_name);
  }
  absl::StrAppend(&text, " after ", RunningText(experiment));
  if (!experiment.reason.empty()) absl::StrAppend(&text, ": ", experiment.reason);
  return absl::StrCat(text, "; all traffic of ", plan.model_name, " goes to the baseline");
}

}  // namespace

std::string StateText(ExperimentState state) {
  switch (state) {
    case ExperimentState::kRunning:
      return "running";
    case ExperimentState::kStopped:
      return "stopped";
    case ExperimentState::kGuardRail:
      return "ended by a guard rail";
    case ExperimentState::kExpired:
      return "expired";
    case ExperimentState::kModelGone:
      return "ended without its model";
    case ExperimentState::kUnknown:
      return "in a state that this program does not know";
  }
  return "";
}

std::string LatencyText(const Test& ratio) {
  return TestText(ratio, {.lower = "faster", .higher = "slower"},
                  absl::StrCat(Fixed(ratio.estimate, 3), " [", Fixed(ratio.lower, 3), ", ",
                               Fixed(ratio.upper, 3), "]"));
}

std::string DisagreementText(const Test& share) {
  return TestText(share, {.lower = "fewer", .higher = "differs"}, Shares(share));
}

std::string ErrorsText(const Test& excess) {
  return TestText(excess, {.lower = "fails less", .higher = "fails more"}, Shares(excess));
}

void PrintExperiment(const Experiment& experiment, std::ostream& out, bool colour) {
  out << Printable(Summary(experiment)) << "\n\n";
  PrintTraffic(experiment, out, colour);
  out << '\n';
  PrintTests(experiment, out, colour);
  out << "\nLATENCY is the ratio to the baseline's. The intervals in brackets hold the truth at "
         "all "
         "times at once with a\nprobability of "
      << Percent(1 - experiment.plan.error_probability) << ": look, and stop, whenever you like.";
  if (AnyShadows(experiment)) {
    out << " Answers are compared by copies, which are made while\nthe device is idle; of an arm "
           "that only gets copies LATENCY is that of the compute stage.";
  }
  out << '\n';
  for (const ArmReport& arm : experiment.arms) {
    if (arm.weights_of_attention.empty()) continue;
    out << Printable(absl::StrCat(arm.name, ": same weights as ", arm.weights_of_attention,
                                  ", not fine-tuned."))
        << '\n';
  }
  PrintProvenance(experiment.measured, out);
}

void PrintExperiments(const std::vector<Experiment>& experiments, std::ostream& out, bool colour) {
  Table table({{"NAME"},
               {"MODEL"},
               {"STATE"},
               {"FOR", Align::kRight},
               {"ARMS", Align::kRight},
               {"REQUESTS", Align::kRight},
               {"REASON"}});
  for (const Experiment& experiment : experiments) {
    uint64_t requests = 0;
    for (const ArmReport& arm : experiment.arms) requests += arm.requests;
    table.AddRow({experiment.plan.name, experiment.plan.model_name, StateText(experiment.state),
                  RunningText(experiment), absl::StrCat(experiment.arms.size()),
                  absl::StrCat(requests), experiment.reason});
  }
  table.Print(out, colour);
}

}  // namespace fovea::client
