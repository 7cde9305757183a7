#include "client/cpp/cli/experiment_commands.h"

#include <CLI/CLI.hpp>

#include "client/cpp/cli/command_help.h"
#include "client/cpp/cli/options.h"

namespace fovea::client {
namespace {

// 0 would be the server's default, and it refuses 1.
constexpr double kLeastShare = 1e-6;
constexpr double kMostShare = 1 - 1e-6;

void AddName(CLI::App& command, std::string& name) {
  command.add_option("NAME", name, "The experiment")->required()->type_name("");
}

void AddGuardRails(CLI::App& command, GuardRails& rails) {
  command
      .add_option("--max-latency-ratio", rails.max_latency_ratio,
                  "End it when an arm's latency is certainly this many times the baseline's "
                  "(default: 2)")
      ->check(InRange(1.0, 1e6))
      ->type_name("X");
  command
      .add_option("--max-disagreement", rails.max_disagreement,
                  "End it when an arm certainly answers this share of requests otherwise than the "
                  "baseline (default: never)")
      ->check(InRange(kLeastShare, kMostShare))
      ->type_name("SHARE");
  command
      .add_option("--max-error-excess", rails.max_error_excess,
                  "End it when an arm certainly fails this share of requests more than the "
                  "baseline (default: 0.05)")
      ->check(InRange(kLeastShare, kMostShare))
      ->type_name("SHARE");
  AddTime(command, "--max-time", rails.max_time,
          "End it after this time, at most 30 days (default: a week)");
  command
      .add_option("--max-shadow-share", rails.max_shadow_share,
                  "Of the seconds of the device's threads, what shadow copies may take (default: "
                  "0.1)")
      ->check(InRange(kLeastShare, 0.5))
      ->type_name("SHARE");
}

void AddStart(CLI::App& experiment, StartExperimentOptions& options) {
  CLI::App* command = AddCommand(
      experiment, "start", "Share a model's traffic out between variants, or copy it to one",
      "  fovea experiment start night --model shapes --baseline-weight 9 \\\n"
      "      --arm 'attention=knn:k=0.5,weight=1'\n"
      "  fovea experiment start night --model shapes --arm 'model=shapes_knn,shadow'\n"
      "An arm is parts joined by commas: model=NAME[/VERSION] (default: --model's),\n"
      "attention=ATTENTION over its weights (default: the model's own), weight=W of the traffic\n"
      "against the other arms' (default: 1, of a shadow 0), and shadow: it gets copies of what\n"
      "the baseline has answered, when the device has nothing else to do. The baseline is the\n"
      "model as it is served. Callers that send the same --experiment-key stay on one arm.\n");
  AddName(*command, options.plan.name);
  command
      ->add_option("-m,--model", options.model,
                   "Whose traffic it is: of requests that name it and no version")
      ->required()
      ->type_name("MODEL");
  Repeatable(
      command->add_option("--arm", options.arms, "A variant beside the baseline; repeatable"),
      "ARM")
      ->required();
  command
      ->add_option("--baseline-weight", options.baseline_weight,
                   "Of the traffic, what the baseline gets against the arms' weights")
      ->check(InRange(kLeastShare, 1e6))
      ->type_name("W")
      ->capture_default_str();
  AddGuardRails(*command, options.plan.guard_rails);
  command
      ->add_option("--error-probability", options.plan.error_probability,
                   "That any of the intervals ever misses the truth (default: 0.05)")
      ->check(InRange(kLeastShare, 0.5))
      ->type_name("P");
  command
      ->add_option("--latency-margin", options.plan.latency_margin,
                   "By a ratio of latencies up to 1 +- this, arms are equivalent (default: 0.05)")
      ->check(InRange(kLeastShare, kMostShare))
      ->type_name("SHARE");
  command
      ->add_option("--disagreement-margin", options.plan.disagreement_margin,
                   "By up to this share of other answers, arms are equivalent (default: 0.05)")
      ->check(InRange(kLeastShare, kMostShare))
      ->type_name("SHARE");
  AddJson(*command, options.json);
  AddTimeout(*command, options.call, "Deadline of the request, in which the arms are loaded");
}

void AddShow(CLI::App& experiment, ShowExperimentOptions& options) {
  CLI::App* command = AddCommand(
      experiment, "show", "Print how an experiment stands",
      "  fovea experiment show night\n"
      "  fovea experiment show night --watch\n"
      "Each arm against the baseline: slower: 1.18 [1.12, 1.25] is the ratio of latencies and\n"
      "its interval, which holds the truth at all times at once: look, and stop, whenever you\n"
      "like. --watch --json prints a line each time.\n");
  AddName(*command, options.name);
  command->add_flag("-w,--watch", options.watch, "Go on until it ends");
  AddTime(*command, "--every", options.every, "Between two looks of --watch");
  AddJson(*command, options.json);
  AddTimeout(*command, options.call, "Deadline of each request");
}

void AddList(CLI::App& experiment, ListExperimentsOptions& options) {
  CLI::App* command =
      AddCommand(experiment, "list", "List the experiments of the server, ended ones too",
                 "  fovea experiment list\n"
                 "  fovea experiment list --json\n");
  AddJson(*command, options.json);
  AddTimeout(*command, options.call, "Deadline of the request");
}

void AddStop(CLI::App& experiment, StopExperimentOptions& options) {
  CLI::App* command = AddCommand(
      experiment, "stop", "End an experiment: all traffic goes to the baseline",
      "  fovea experiment stop night\n"
      "What it has found stays until it is deleted, or until 32 later ones have ended.\n");
  AddName(*command, options.name);
  AddJson(*command, options.json);
  AddTimeout(*command, options.call, "Deadline of the request");
}

void AddDelete(CLI::App& experiment, DeleteExperimentOptions& options) {
  CLI::App* command = AddCommand(experiment, "delete", "Forget an experiment that has ended",
                                 "  fovea experiment delete night\n");
  AddName(*command, options.name);
  AddTimeout(*command, options.call, "Deadline of the request");
}

}  // namespace

void AddExperimentCommands(CLI::App& app, ExperimentOptions& options) {
  CLI::App* experiment = AddCommand(
      app, "experiment", "Compare variants on a model's live traffic",
      "  fovea experiment start night --model shapes --arm 'attention=knn:k=0.5,shadow'\n"
      "  fovea experiment show night\n"
      "  fovea experiment stop night\n"
      "The server has to be started with --enable-experiments; each replica has experiments of\n"
      "its own.\n");
  experiment->require_subcommand(1);
  AddStart(*experiment, options.start);
  AddShow(*experiment, options.show);
  AddList(*experiment, options.list);
  AddStop(*experiment, options.stop);
  AddDelete(*experiment, options.remove);
}

ExitCode RunExperimentCommand(Client& client, const CLI::App& command,
                              const ExperimentOptions& options, const Console& console) {
  const std::string name = command.get_subcommands().front()->get_name();
  if (name == "start") return RunStartExperiment(client, options.start, console);
  if (name == "show") return RunShowExperiment(client, options.show, console);
  if (name == "list") return RunListExperiments(client, options.list, console);
  if (name == "stop") return RunStopExperiment(client, options.stop, console);
  return RunDeleteExperiment(client, options.remove, console);
}

}  // namespace fovea::client
