#include "client/cpp/cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/command_line.h"
#include "base/picture_folders.h"
#include "client/cpp/cli/command_help.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/companion_commands.h"
#include "client/cpp/cli/experiment_commands.h"
#include "client/cpp/cli/measuring_commands.h"
#include "client/cpp/cli/options.h"
#include "client/cpp/cli/server_access.h"

namespace fovea::client {
namespace {

constexpr char kDescription[] =
    "Asks a Fovea server which models it has, what images show, and what that costs";
constexpr char kFooter[] = R"(Examples:
  fovea models
  fovea health
  fovea --server gpu-box:8001 classify --model shapes cat.jpg 'pics/*.png'
  fovea detect street.jpg --output found.png
  fovea compare cat.jpg --model shapes --attention knn:k=9
  fovea sweep --model shapes --over resolution --values 64,128,256
  fovea explain cat.jpg --model shapes --method attribution --output seen/
  fovea experiment start night --model shapes --arm 'attention=knn:k=9,shadow'
  fovea evaluate --model shapes --model shapes_knn --dataset pictures/
  fovea check models/
  fovea train --out models/finder --data street/ --head mask_rcnn

`fovea help COMMAND` or `fovea COMMAND --help` says more of each command.
Exit codes: 0 ok, 1 a request failed, 2 usage, 3 the server cannot be reached, 130 interrupted.
)";

struct Options {
  ServerAccess server;
  ModelsOptions models;
  HealthOptions health;
  ClassifyOptions classify;
  DetectOptions detect;
  SegmentOptions segment;
  RepositoryOptions load, unload;
  StatsOptions stats;
  CompareOptions compare;
  SweepOptions sweep;
  ExplainOptions explain;
  ExperimentOptions experiment;
};

// What the commands over images share. `task`: "classifier".
void AddImages(CLI::App& command, ImagesOptions& options, const std::string& task) {
  CLI::Option* files =
      command
          .add_option("FILE", options.images,
                      "Picture files, folders (and those below them), quoted patterns "
                      "(*, ?, [...]); - is an image on standard input")
          ->type_name("");
  CLI::Option* list = command
                          .add_option("--files-from", options.files_from,
                                      "Also the files that this file names, one a line; - is a "
                                      "list on standard input")
                          ->type_name("LIST");
  command.callback([&options, files, list] {
    if (files->empty() && list->empty()) throw CLI::RequiredError("FILE");
    const auto& names = options.images;
    if (std::count(names.begin(), names.end(), "-") + (options.files_from == "-") > 1) {
      throw CLI::ValidationError("standard input can be read once");
    }
  });
  command
      .add_option("-m,--model", options.model,
                  "NAME or NAME/VERSION (default: the server's only " + task + ")")
      ->type_name("MODEL");
}

// Of AddImages' command, what stands behind its own options.
void AddRequests(CLI::App& command, ImagesOptions& options) {
  command.add_flag("--receipt", options.receipt,
                   "Print what each request cost: stages, batch size, peak memory");
  command
      .add_option("--concurrency", options.concurrency,
                  "Requests on their way at a time; the server batches them")
      ->check(InRange(1, 256))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--experiment-key", options.call.experiment_key,
                  "While an experiment shares the model's traffic out: requests with one key are "
                  "answered by one arm (default: those of one API key, or each by chance)")
      ->type_name("KEY");
  AddJson(command, options.json);
  AddTimeout(command, options.call, "Deadline of each request");
}

void AddOutput(CLI::App& command, std::string& output) {
  command
      .add_option("-o,--output", output,
                  "Write pictures with what was found and a legend: a .png file for one image, "
                  "otherwise a folder")
      ->check(CLI::Validator(
          [](const std::string& path) {
            return IsPicture(path) && !path.ends_with(".png") &&
                           !std::filesystem::is_directory(path)
                       ? absl::StrCat(
                             "pictures are written as PNG: name a .png file or a folder, "
                             "not '",
                             path, "'")
                       : std::string();
          },
          ""))
      ->type_name("PATH");
}

void AddClassify(CLI::App& app, ClassifyOptions& options) {
  CLI::App* command =
      AddCommand(app, "classify", "Print what images show, most probable class first",
                 "  fovea classify cat.jpg\n"
                 "  fovea classify --model shapes --top-k 5 --receipt cat.jpg\n"
                 "  fovea classify --model shapes --json pics 'more/*.jpg' a.png\n"
                 "  curl -s https://example.com/cat.jpg | fovea classify -\n"
                 "  find /data -name '*.png' | fovea classify --files-from -\n"
                 "Results come in the order of the files, a line each, as soon as they are there.\n"
                 "--json is one document with a line for each image. Ctrl-C ends it in order.\n");
  AddImages(*command, options, "classifier");
  command->add_option("-k,--top-k", options.top_k, "Classes to print for each image")
      ->check(InRange(1, 100'000))
      ->type_name("N")
      ->capture_default_str();
  AddRequests(*command, options);
}

void AddDetect(CLI::App& app, DetectOptions& options) {
  CLI::App* command =
      AddCommand(app, "detect", "Find the objects in images, and draw their boxes",
                 "  fovea detect street.jpg\n"
                 "  fovea detect street.jpg --output found.png\n"
                 "  fovea detect pics --class car --class person --output drawn/\n"
                 "  fovea detect --json val2017 > results.json\n"
                 "Results come in the order of the files, as soon as they are there. --json is\n"
                 "COCO's format of results, boxes as [left, top, width, height].\n");
  AddImages(*command, options, "detector");
  command
      ->add_option("--score-threshold", options.score_threshold,
                   "Leave out objects of a lower score")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("S")
      ->capture_default_str();
  command->add_option("--class", options.classes, "Only this class, a label or a number; repeat it")
      ->type_name("CLASS")
      ->allow_extra_args(false);
  command
      ->add_option("--max-detections", options.max_detections,
                   "Objects of each image at most, best first (default: the model's own)")
      ->check(InRange(1, 1'000'000))
      ->type_name("N");
  AddOutput(*command, options.output);
  AddRequests(*command, options);
}

void AddSegment(CLI::App& app, SegmentOptions& options) {
  CLI::App* command =
      AddCommand(app, "segment", "Tell which class each pixel of images belongs to, and draw it",
                 "  fovea segment street.jpg\n"
                 "  fovea segment street.jpg --output classes.png\n"
                 "  fovea segment --json val2017 > results.json\n"
                 "Results come in the order of the files, as soon as they are there: the share of\n"
                 "each class. --json is COCO's format of results for stuff, as run lengths.\n");
  AddImages(*command, options, "segmenter");
  AddOutput(*command, options.output);
  AddRequests(*command, options);
}

void AddModels(CLI::App& app, ModelsOptions& options) {
  CLI::App* command = AddCommand(app, "models", "List the models of the server's repository",
                                 "  fovea models\n"
                                 "  fovea models --json\n"
                                 "Below the table stands why a model is not ready. Programs ask "
                                 "grpc.health.v1 for\n\"\" (the server), \"model/NAME\" or "
                                 "\"model/NAME/VERSION\".\n");
  AddJson(*command, options.json);
  AddTimeout(*command, options.call, "Deadline of each request");
}

void AddHealth(CLI::App& app, HealthOptions& options) {
  CLI::App* command = AddCommand(
      app, "health", "Tell by the exit code whether the server takes requests",
      "  fovea health\n"
      "  fovea health shapes finder/2\n"
      "Prints \"ready\" and exits with 0 where the server, and each of the models that are named,\n"
      "is ready; otherwise says what is not. For health checks of containers and scripts.\n");
  command->add_option("MODEL", options.models, "NAME or NAME/VERSION that has to be ready besides")
      ->type_name("");
  AddTimeout(*command, options.call, "Deadline of each request");
}

void AddStats(CLI::App& app, StatsOptions& options) {
  CLI::App* command =
      AddCommand(app, "stats", "Print what each model has served, and how long that took",
                 "  fovea stats\n"
                 "  fovea stats shapes --json\n");
  command->add_option("MODEL", options.model, "NAME or NAME/VERSION (default: all)")->type_name("");
  AddJson(*command, options.json);
  AddTimeout(*command, options.call, "Deadline of the request");
}

void AddRepositoryCommands(CLI::App& app, RepositoryOptions& load, RepositoryOptions& unload) {
  CLI::App* command =
      AddCommand(app, "load", "Load or reload models of the repository (explicit model control)",
                 "  fovea load shapes\n");
  command->add_option("MODEL", load.models, "Names")->required()->type_name("");
  AddTimeout(*command, load.call, "Deadline of each load");
  command = AddCommand(app, "unload", "Stop serving models (explicit model control)",
                       "  fovea unload shapes shapes_knn\n");
  command->add_option("MODEL", unload.models, "Names")->required()->type_name("");
  AddTimeout(*command, unload.call, "Deadline of each unload");
}

template <typename Command>
int WithClient(const ServerAccess& server, const Console& console, Command command) {
  const auto client = Connect(server);
  if (absl::IsInvalidArgument(client.status())) {
    return ReportUsage(console, std::string(client.status().message()));
  }
  if (!client.ok()) return Report(console, client.status());
  return command(**client);
}

void AddCommands(CLI::App& app, Options& options) {
  app.name("fovea");
  app.description(kDescription);
  app.formatter(std::make_shared<HelpText>());
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", absl::StrCat("fovea ", FOVEA_VERSION),
                       "Print the version and exit");
  AddServerAccess(app, options.server);
  AddModels(app, options.models);
  AddHealth(app, options.health);
  AddClassify(app, options.classify);
  AddDetect(app, options.detect);
  AddSegment(app, options.segment);
  AddCompare(app, options.compare);
  AddSweep(app, options.sweep);
  AddExplain(app, options.explain);
  AddExperimentCommands(app, options.experiment);
  AddCompanionCommand(app, "evaluate");
  AddStats(app, options.stats);
  AddRepositoryCommands(app, options.load, options.unload);
  AddCompanionCommand(app, "capacity");
  AddCompanionCommand(app, "check");
  AddCompanionCommand(app, "import");
  AddCompanionCommand(app, "train");
  AddCompanionCommand(app, "kernels");
  AddCompanionCommand(app, "quantize");
  AddCompanionCommand(app, "zoo");
}

}  // namespace

void VisitCommandLine(const std::function<void(const CLI::App&)>& visit) {
  Options options;
  CLI::App app;
  AddCommands(app, options);
  visit(app);
}

int RunFovea(const std::vector<std::string>& arguments, const Console& console) {
  Options options;
  CLI::App app;
  AddCommands(app, options);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    if (!reversed.empty() && reversed.back() == "help") {
      reversed.pop_back();
      reversed.insert(reversed.begin(), "--help");
    }
    app.parse(std::move(reversed));
  } catch (const CLI::CallForVersion& version) {
    console.out << version.what() << '\n';
    return kOk;
  } catch (const CLI::Success&) {
    if (const std::string unknown = UnknownCommand(app); !unknown.empty()) {
      return ReportUsage(console, unknown + " (see fovea --help)");
    }
    console.out << app.help();
    return kOk;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    if (arguments.empty()) {
      console.err << app.help();
      return kUsage;
    }
    std::string command;
    for (auto at = chosen; !at.empty(); at = at.front()->get_subcommands()) {
      absl::StrAppend(&command, " ", at.front()->get_name());
    }
    return ReportUsage(console,
                       absl::StrCat(RefusalText(app, error), " (see fovea", command, " --help)"));
  }

  const CLI::App& command = *app.get_subcommands().front();
  const std::string name = command.get_name();
  if (IsCompanionCommand(name)) return RunCompanionCommand(command, options.server, console);
  return WithClient(options.server, console, [&](Client& client) -> int {
    if (name == "models") return RunModels(client, options.models, console);
    if (name == "health") return RunHealth(client, options.health, console);
    if (name == "classify") return RunClassify(client, options.classify, console);
    if (name == "detect") return RunDetect(client, options.detect, console);
    if (name == "segment") return RunSegment(client, options.segment, console);
    if (name == "compare") return RunCompare(client, options.compare, options.server, console);
    if (name == "sweep") return RunSweep(client, options.sweep, console);
    if (name == "explain") return RunExplain(client, options.explain, console);
    if (name == "experiment") {
      return RunExperimentCommand(client, command, options.experiment, console);
    }
    if (name == "stats") return RunStats(client, options.stats, console);
    if (name == "load") return RunLoad(client, options.load, console);
    return RunUnload(client, options.unload, console);
  });
}

}  // namespace fovea::client
