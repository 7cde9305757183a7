#include "server/lifecycle/pre_stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace fovea {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A folder that looks like /proc.
class PreStopTest : public testing::Test {
 protected:
  PreStopTest() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(proc_);
    for (const char* program : {"fovea-server", "other"}) std::ofstream(root_ / program) << program;
  }

  void AddProcess(const std::string& pid, const std::string& program, const std::string& blocked) {
    std::filesystem::create_directories(proc_ / pid);
    std::filesystem::create_symlink(root_ / program, proc_ / pid / "exe");
    std::ofstream(proc_ / pid / "status") << "Name:\tx\nSigBlk:\t" << blocked << "\nSigIgn:\t0\n";
  }

  std::vector<pid_t> Found() { return FindServers(root_ / "fovea-server", proc_); }

  static constexpr char kServing[] = "0000000000004203", kOther[] = "0000000000000000";
  const std::filesystem::path root_ = testing::TempDir() + "fovea_pre_stop_test";
  const std::filesystem::path proc_ = root_ / "proc";
};

TEST_F(PreStopTest, FindsTheServerAndNoOtherProcess) {
  AddProcess("1", "other", kServing);
  AddProcess("7", "fovea-server", kServing);
  AddProcess("8", "fovea-server", kOther);  // --pre-stop itself
  AddProcess("nine", "fovea-server", kServing);
  std::filesystem::create_directories(proc_ / "10");  // it has ended
  EXPECT_THAT(Found(), ElementsAre(7));
}

TEST_F(PreStopTest, AStatusThatMakesNoSenseIsNoServer) {
  AddProcess("7", "fovea-server", "zz");
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(PreStopTest, WhereNoServerRunsTheExitCodeSaysSo) { EXPECT_EQ(RunPreStop(0), 1); }

}  // namespace
}  // namespace fovea
