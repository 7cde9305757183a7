// Runs the command line in the test's own process and keeps what it wrote.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <ostream>
#include <sstream>
#include <streambuf>
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

// What a command writes, readable by another thread while it runs.
class LiveOutput : private std::streambuf, public std::ostream {
 public:
  LiveOutput() : std::ostream(this) {}

  std::string text() const {
    std::lock_guard lock(mutex_);
    return text_;
  }

  // False: it has not been written within 20 seconds.
  bool WaitFor(const std::string& wanted) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return text_.find(wanted) != std::string::npos; });
  }

 private:
  int overflow(int c) override {
    const char byte = static_cast<char>(c);
    xsputn(&byte, 1);
    return c;
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    std::lock_guard lock(mutex_);
    text_.append(text, static_cast<size_t>(size));
    changed_.notify_all();
    return size;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

// While it lives, standard input is a pipe that the test writes to.
class StandardInput {
 public:
  StandardInput() : before_(::dup(STDIN_FILENO)) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[0]);
    pipe_ = ends[1];
  }
  ~StandardInput() {
    Close();
    ::dup2(before_, STDIN_FILENO);
    ::close(before_);
  }

  void Write(const std::string& text) {
    EXPECT_EQ(::write(pipe_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void Close() {
    if (pipe_ >= 0) ::close(pipe_);
    pipe_ = -1;
  }

 private:
  int before_;
  int pipe_;
};

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
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }

  std::filesystem::path folder_;
};

}  // namespace fovea::client
