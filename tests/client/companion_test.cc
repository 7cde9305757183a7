// import, and how the programs behind it are found.
#include "client/cpp/cli/companion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/run_fovea.h"

namespace fovea::client {
namespace {

using ::testing::ElementsAre;

class Import : public FoveaTest {
 protected:
  // An importer that notes its arguments and exits with `exit_code`.
  void InstallImporter(int exit_code) {
    const std::filesystem::path path = folder_ / "fovea-import";
    std::ofstream(path) << "#!/bin/sh\nprintf '%s\\n' \"$@\" > " << (folder_ / "arguments")
                        << "\nexit " << exit_code << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
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
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder_.string() + ":" + path).c_str(), 1);
  const Outcome outcome =
      Fovea({"import", "timm:deit_tiny_patch16_224", "--seed", "7", "--random"});
  ::setenv("PATH", path.c_str(), 1);
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

}  // namespace
}  // namespace fovea::client
