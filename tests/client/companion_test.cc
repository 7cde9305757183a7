// import, evaluate and train, and how the programs behind them are found.
#include "client/cpp/cli/companion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/client/run_fovea.h"

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
  // Runs fovea where the installed programs are on the path.
  Outcome FoveaWithPath(const std::vector<std::string>& arguments) {
    const std::string path = std::getenv("PATH");
    ::setenv("PATH", (folder_.string() + ":" + path).c_str(), 1);
    Outcome outcome = Fovea(arguments);
    ::setenv("PATH", path.c_str(), 1);
    return outcome;
  }
  std::string Arguments() {
    std::ostringstream text;
    text << std::ifstream(folder_ / "arguments").rdbuf();
    return text.str();
  }
};

TEST_F(Import, PassesItsArgumentsOnAndReturnsTheImportersExitCode) {
  InstallImporter(1);
  std::ostringstream out, err;
  EXPECT_EQ(RunCompanion({.program = "fovea-import"},
                         {"timm:deit_tiny_patch16_224", "--out", "my models", "--random"},
                         {folder_ / "empty", folder_}, {.out = out, .err = err}),
            1);
  EXPECT_EQ(Arguments(), "timm:deit_tiny_patch16_224\n--out\nmy models\n--random\n");
}

TEST_F(Import, IsFoundOnThePathAndTakesOptionsThatFoveaDoesNotKnow) {
  InstallImporter(0);
  const Outcome outcome =
      FoveaWithPath({"import", "timm:deit_tiny_patch16_224", "--seed", "7", "--random"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
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

TEST_F(Import, LeavesCtrlCToTheProgramAndIsInterruptibleAfterwards) {
  const std::filesystem::path path = folder_ / "fovea-import";
  // The program reports how it took the interrupt that the process group gets.
  std::ofstream(path) << "#!/bin/sh\ntrap 'exit 130' INT\nkill -INT $PPID\nkill -INT $$\nexit 7\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  struct sigaction before = {}, after = {};
  ::sigaction(SIGINT, nullptr, &before);
  std::ostringstream out, err;
  const int exit_code =
      RunCompanion({.program = "fovea-import"}, {}, {folder_}, {.out = out, .err = err});
  ::sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(exit_code, before.sa_handler == SIG_IGN ? 7 : 130);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

// No Python environment is looked into, and no server is asked or told: there is none here.
class Train : public Import {};

TEST_F(Train, GivesItsProgramItsArgumentsAndNoServer) {
  Install("fovea-train", 1);
  const std::vector<std::string> own = {"--out",  "models/my finder", "--data",
                                        "street", "--resume",         "--server"};
  std::vector<std::string> arguments = {"--server", "nowhere:1", "train"};
  arguments.insert(arguments.end(), own.begin(), own.end());
  const Outcome outcome = FoveaWithPath(arguments);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_EQ(Arguments(), "--out\nmodels/my finder\n--data\nstreet\n--resume\n--server\n");
}

TEST_F(Train, LeavesTheHelpToItsProgram) {
  Install("fovea-train", 0);
  EXPECT_EQ(FoveaWithPath({"train", "--help"}).exit_code, 0);
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
  const Outcome outcome = FoveaWithPath({"evaluate", "--model", "a", "--model", "b", "--json"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
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
  EXPECT_EQ(FoveaWithPath({"evaluate", "--server", "gpu-box:8001"}).exit_code, 0);
  // fovea-evaluate takes the last.
  EXPECT_THAT(Arguments(), ::testing::EndsWith("\n--server\ngpu-box:8001\n"));
}

TEST_F(Evaluate, LeavesTheHelpToItsProgram) {
  Install("fovea-evaluate", 0);
  EXPECT_EQ(FoveaWithPath({"evaluate", "--help"}).exit_code, 0);
  EXPECT_THAT(Arguments(), ::testing::EndsWith("\n--help\n"));
}

}  // namespace
}  // namespace fovea::client
