// Runs the command line in the test's own process and keeps what it wrote.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/cpp/cli/app.h"
#include "gtest/gtest.h"

namespace fovea::client {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline Outcome Fovea(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const int exit_code = RunFovea(arguments, {.out = out, .err = err});
  return {exit_code, out.str(), err.str()};
}

// A folder of its own for each test, with files whose contents decide what the fake server answers.
class FoveaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "fovea-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Image(const std::string& name, const std::string& contents = "an image") {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }

  std::filesystem::path folder_;
};

}  // namespace fovea::client
