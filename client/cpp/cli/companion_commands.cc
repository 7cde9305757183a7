#include "client/cpp/cli/companion_commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "client/cpp/cli/command_help.h"
#include "client/cpp/cli/companion.h"

namespace fovea::client {
namespace {

enum class ComesWith {
  kPythonPackage,
  kBuild,  // it lies beside this program
};

struct CompanionCommand {
  const char* name;  // of the program: "fovea-" and that
  const char* description;
  ComesWith comes_with;
  // Empty: the program says itself what it takes. Otherwise it may be missing, or says less.
  const char* usage = "";
  const char* examples = "";
  bool asks_server = false;
};

constexpr CompanionCommand kCompanions[] = {
    {.name = "import",
     .description = "Write a model folder from a published model, or from weights of yours (runs "
                    "fovea-import)",
     .comes_with = ComesWith::kPythonPackage,
     .usage = "SOURCE:NAME [OPTIONS of fovea-import]",
     .examples = "  fovea import timm:deit_tiny_patch16_224 --out models\n"
                 "  fovea import timm:deit_tiny_patch16_224 --out models --random\n"
                 "  fovea import file:model_best.pth.tar --as vit_small_patch16_224 --out models\n"
                 "  fovea-import --help\n"
                 "Installed by: pip install ./client/python (in a checkout: .venv/bin/pip)\n"},
    {.name = "evaluate",
     .description =
         "Measure models on a data set of yours: accuracy, average precision, mIoU (runs "
         "fovea-evaluate)",
     .comes_with = ComesWith::kPythonPackage,
     .asks_server = true},
    {.name = "capacity",
     .description =
         "Replicas needed for a rate and a p99, by the scheduler in virtual time, without "
         "a server (runs fovea-capacity)",
     .comes_with = ComesWith::kBuild,
     .usage = "RATE P99_MS SWEEP.csv [poisson|bursty|diurnal]",
     .examples =
         "  fovea capacity 2000 10 batches.csv\n"
         "  fovea capacity 2000 10 batches.csv bursty\n"
         "fovea sweep --over batch --csv writes the file.\n"
         "Exit codes: 0 the last row is the answer, 1 no number of replicas does, 2 usage.\n"},
    {.name = "check",
     .description = "Say everything that is wrong with model folders before they are served, no "
                    "server asked (runs fovea-check)",
     .comes_with = ComesWith::kBuild},
    {.name = "train",
     .description = "Train a model on a data set of yours, no server asked (runs fovea-train)",
     .comes_with = ComesWith::kBuild},
    {.name = "kernels",
     .description = "Which implementation of each operator runs on this machine, no server asked "
                    "(runs fovea-kernels)",
     .comes_with = ComesWith::kBuild,
     .usage = "[--json]",
     .examples = "  fovea kernels\n"
                 "  fovea kernels --json\n"},
    {.name = "quantize",
     .description = "Write a classifier's folder in 8 bits, calibrated on pictures of yours, and "
                    "what that changes, no server asked (runs fovea-quantize)",
     .comes_with = ComesWith::kBuild},
    {.name = "zoo",
     .description = "What the architectures cost, beside what their papers print, no server asked "
                    "(runs fovea-zoo)",
     .comes_with = ComesWith::kBuild},
};

const CompanionCommand& Find(const std::string& name) {
  const auto* const found = std::ranges::find(kCompanions, name, &CompanionCommand::name);
  FOVEA_CHECK(found != std::end(kCompanions));
  return *found;
}

class CompanionHelp final : public HelpText {
 public:
  explicit CompanionHelp(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return "Usage: " + name + " " + usage_ + "\n";
  }

 private:
  const std::string usage_;
};

void TellServer(const ServerAccess& server, std::vector<std::string>* arguments) {
  std::vector<std::string> access = {"--server", server.address};
  for (const auto& [flag, file] :
       {std::pair("--tls-ca", &server.tls_ca), std::pair("--tls-cert", &server.tls_cert),
        std::pair("--tls-key", &server.tls_key)}) {
    if (!file->empty()) access.insert(access.end(), {flag, *file});
  }
  // Before the others: of two, the program takes the last.
  arguments->insert(arguments->begin(), access.begin(), access.end());
  if (!server.api_key.empty()) ::setenv("FOVEA_API_KEY", server.api_key.c_str(), 1);
}

struct Installed {
  Companion companion;
  std::vector<std::string> folders;
};

Installed WhereIs(const CompanionCommand& companion) {
  std::string comes_from = "make build and make install put it beside fovea";
  const std::vector<std::string> on_path = FoldersOnPath();
  std::vector<std::string> folders = {OwnFolder()};
  if (companion.comes_with == ComesWith::kPythonPackage) {
    folders = PythonFolders(OwnFolder(), on_path);
    const bool in_checkout = folders.size() > 1 + on_path.size();
    comes_from = in_checkout ? ".venv/bin/pip install ./client/python in this checkout installs it"
                             : "pip install ./client/python, from Fovea's checkout into a Python "
                               "environment whose programs are on PATH, installs it";
  } else {
    folders.insert(folders.end(), on_path.begin(), on_path.end());
  }
  return {{.program = absl::StrCat("fovea-", companion.name), .comes_from = std::move(comes_from)},
          std::move(folders)};
}

}  // namespace

bool IsCompanionCommand(const std::string& name) {
  return std::ranges::find(kCompanions, name, &CompanionCommand::name) != std::end(kCompanions);
}

void AddCompanionCommand(CLI::App& app, const std::string& name) {
  const CompanionCommand& companion = Find(name);
  CLI::App* command = AddCommand(app, name, companion.description, companion.examples);
  command->prefix_command();  // everything from the first argument on is the program's
  command->fallthrough(false);
  if (*companion.usage == '\0') command->set_help_flag();
  command->formatter(std::make_shared<CompanionHelp>(companion.usage));
}

int RunCompanionCommand(const CLI::App& command, const ServerAccess& server,
                        const Console& console) {
  const CompanionCommand& companion = Find(command.get_name());
  std::vector<std::string> arguments = command.remaining();
  if (companion.asks_server) TellServer(server, &arguments);
  const Installed installed = WhereIs(companion);
  return RunCompanion(installed.companion, arguments, installed.folders, console);
}

CompanionOutput AskCompanionCommand(const std::string& name, std::vector<std::string> arguments,
                                    const ServerAccess& server, const Console& console) {
  const CompanionCommand& companion = Find(name);
  if (companion.asks_server) TellServer(server, &arguments);
  const Installed installed = WhereIs(companion);
  return AskCompanion(installed.companion, arguments, installed.folders, console);
}

}  // namespace fovea::client
