// import, evaluate and train, and how the programs behind them are found.
#include "client/cpp/cli/companion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/run_fovea.h"

namespace fovea::client {
namespace {

using ::testing::ElementsAre;

class Import : public FoveaTest {
 protected:
  // A program that notes its arguments and exits with `exit_code`.
  void InstallImporter(int exit_code) { Install("fovea-import", exit_code); }
  void Install(const std::string& program, int exit_code) {
    const std::filesystem::path path = folder_ / program;
    std::ofstream(path) << "#!/bin/sh\nprintf '%s\\n' \"$@\" > " << (folder_ / "arguments")
                        << "\nexit " << exit_code << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  // The exit code of `command` in a process of its own, which another program may take over.
  template <typename Command>
  static int ExitCodeOf(Command command) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(command());
    int outcome = 0;
    EXPECT_EQ(::waitpid(child, &outcome, 0), child);
    return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : 128 + WTERMSIG(outcome);
  }
  // Runs fovea where the installed programs are on the path; its exit code.
  int FoveaWithPath(const std::vector<std::string>& arguments) {
    return ExitCodeOf([&] {
      ::setenv("PATH", absl::StrCat(folder_.string(), ":", std::getenv("PATH")).c_str(), 1);
      const Outcome outcome = Fovea(arguments);  // returns where there is no program
      std::fputs(outcome.err.c_str(), stderr);
      return outcome.exit_code;
    });
  }
  std::string Arguments() {
    std::ostringstream text;
    text << std::ifstream(folder_ / "arguments").rdbuf();
    return text.str();
  }
};

TEST_F(Import, PassesItsArgumentsOnAndReturnsTheImportersExitCode) {
  InstallImporter(1);
  EXPECT_EQ(ExitCodeOf([&] {
              return RunCompanion({.program = "fovea-import"},
                                  {"timm:deit_tiny_patch16_224", "--out", "my models", "--random"},
                                  {folder_ / "empty", folder_},
                                  {.out = std::cout, .err = std::cerr});
            }),
            1);
  EXPECT_EQ(Arguments(), "timm:deit_tiny_patch16_224\n--out\nmy models\n--random\n");
}

TEST_F(Import, IsFoundOnThePathAndTakesOptionsThatFoveaDoesNotKnow) {
  InstallImporter(0);
  EXPECT_EQ(FoveaWithPath({"import", "timm:deit_tiny_patch16_224", "--seed", "7", "--random"}), 0);
  EXPECT_EQ(Arguments(), "timm:deit_tiny_patch16_224\n--seed\n7\n--random\n");
}

// Not in the current folder, which may be anybody's.
TEST_F(Import, IsLookedForBesideFoveaOnThePathAndInTheCheckoutThatFoveaLiesIn) {
  const std::filesystem::path own = folder_ / "checkout/build/release/bin";
  std::filesystem::create_directories(own);
  EXPECT_THAT(PythonFolders(own, {"/usr/bin"}), ElementsAre(own, "/usr/bin"));
  std::filesystem::create_directories(folder_ / "checkout/client/python");
  std::ofstream(folder_ / "checkout/client/python/pyproject.toml") << "[project]\n";
  EXPECT_THAT(PythonFolders(own, {"/usr/bin"}),
              ElementsAre(own, "/usr/bin", folder_ / "checkout/.venv/bin"));
}

TEST_F(Import, IsNotLookedForInRelativeFoldersOfThePath) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", ".:bin::/usr/bin:", 1);
  EXPECT_THAT(FoldersOnPath(), ElementsAre("/usr/bin"));
  ::unsetenv("PATH");
  EXPECT_THAT(FoldersOnPath(), ElementsAre());
  ::setenv("PATH", path.c_str(), 1);
}

TEST_F(Import, SaysHowToInstallTheImporter) {
  std::ostringstream out, err;
  EXPECT_EQ(RunCompanion({.program = "fovea-import", .comes_from = "pip install it"}, {"timm:x"},
                         {folder_}, {.out = out, .err = err}),
            1);
  EXPECT_EQ(err.str(), "fovea: fovea-import is neither beside fovea nor on PATH: pip install it\n");
}

// A training that `kill` or `timeout` ends does not go on behind it.
TEST_F(Import, IsTheProgramForWhoeverSendsASignal) {
  const std::filesystem::path path = folder_ / "fovea-import";
  std::ofstream(path) << "#!/bin/sh\nkill -TERM $$\nexit 7\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  EXPECT_EQ(FoveaWithPath({"import", "timm:x"}), 128 + SIGTERM);
  std::ofstream(path) << "#!/bin/sh\necho $PPID > " << (folder_ / "arguments") << "\n";
  EXPECT_EQ(FoveaWithPath({"import", "timm:x"}), 0);
  EXPECT_EQ(Arguments(), std::to_string(::getpid()) + "\n");  // nothing stands between
}

// No Python environment is looked into, and no server is asked or told: there is none here.
class Train : public Import {};

TEST_F(Train, GivesItsProgramItsArgumentsAndNoServer) {
  Install("fovea-train", 1);
  const std::vector<std::string> own = {"--out",  "models/my finder", "--data",
                                        "street", "--resume",         "--server"};
  std::vector<std::string> arguments = {"--server", "nowhere:1", "train"};
  arguments.insert(arguments.end(), own.begin(), own.end());
  EXPECT_EQ(FoveaWithPath(arguments), 1);
  EXPECT_EQ(Arguments(), "--out\nmodels/my finder\n--data\nstreet\n--resume\n--server\n");
}

TEST_F(Train, LeavesTheHelpToItsProgram) {
  Install("fovea-train", 0);
  EXPECT_EQ(FoveaWithPath({"train", "--help"}), 0);
  EXPECT_EQ(Arguments(), "--help\n");
}

TEST_F(Train, SaysWhatPutsItsProgramBesideFovea) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder_.c_str(), 1);
  const Outcome outcome = Fovea({"train", "--help"});
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "fovea: fovea-train is neither beside fovea nor on PATH: make build and make install "
            "put it beside fovea\n");
}

TEST_F(Train, IsNamedInTheHelp) {
  EXPECT_THAT(Fovea({"--help"}).out, ::testing::ContainsRegex("\n  train +Train a model"));
}

class Evaluate : public Import {};

TEST_F(Evaluate, TellsItsProgramTheServerThatItIsTold) {
  Install("fovea-evaluate", 3);
  EXPECT_EQ(FoveaWithPath({"evaluate", "--model", "a", "--model", "b", "--json"}), 3);
  std::istringstream arguments(Arguments());
  std::string option, address, rest;
  std::getline(arguments, option);
  std::getline(arguments, address);
  std::getline(arguments, rest, '\0');
  EXPECT_EQ(option, "--server");
  EXPECT_EQ(rest, "--model\na\n--model\nb\n--json\n");
  EXPECT_NE(address, "");
}

TEST_F(Evaluate, TakesAServerBehindItsOwnName) {
  Install("fovea-evaluate", 0);
  EXPECT_EQ(FoveaWithPath({"evaluate", "--server", "gpu-box:8001"}), 0);
  // fovea-evaluate takes the last.
  EXPECT_THAT(Arguments(), ::testing::EndsWith("\n--server\ngpu-box:8001\n"));
}

TEST_F(Evaluate, IsToldWhatTheServerIsShownAndTheKeyInTheEnvironment) {
  Install("fovea-evaluate", 0);
  EXPECT_EQ(FoveaWithPath({"--tls-ca", "ca.pem", "--tls-cert", "own.pem", "--tls-key", "own.key",
                           "--api-key", "a secret", "evaluate", "--json"}),
            0);
  EXPECT_THAT(
      Arguments(),
      ::testing::EndsWith("\n--tls-ca\nca.pem\n--tls-cert\nown.pem\n--tls-key\nown.key\n--json\n"));
  EXPECT_THAT(Arguments(), ::testing::Not(::testing::HasSubstr("secret")));
}

TEST_F(Evaluate, LeavesTheHelpToItsProgram) {
  Install("fovea-evaluate", 0);
  EXPECT_EQ(FoveaWithPath({"evaluate", "--help"}), 0);
  EXPECT_THAT(Arguments(), ::testing::EndsWith("\n--help\n"));
}

}  // namespace
}  // namespace fovea::client
