#include "model_zoo/training/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace fovea::models::training {
namespace {

class CsvLogTest : public ::testing::Test {
 protected:
  CsvLogTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("csv_log_test_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~CsvLogTest() override { std::filesystem::remove_all(folder_); }

  std::string Content() const {
    std::ifstream file(file_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::filesystem::path folder_;
  const std::filesystem::path file_ = folder_ / "log.csv";
};

TEST_F(CsvLogTest, ALongReadingIsToldEveryFiveSeconds) {
  std::FILE* const out = std::fopen(file_.c_str(), "w");
  double now = 100;
  ReadingLines lines(out, [&now] { return now; });
  for (uint64_t done = 1; done <= 4; ++done) {
    lines.Show("pictures", done, 9);
    now += 3;
  }
  now += 4;
  lines.Show("annotations", 7, 0);
  std::fclose(out);
  EXPECT_EQ(Content(), "fovea-train: read 3 of 9 pictures\nfovea-train: read 7 annotations\n");
}

EpochReport Epoch(int number) {
  return {.epoch = number,
          .learning_rate = 0.5,
          .training = {{"training_loss", 1.25}},
          .validation = {{"validation_accuracy", 0.75}},
          .score = 0.75,
          .seconds = 3};
}

TEST_F(CsvLogTest, WritesALineAnEpoch) {
  CsvLog log(file_);
  log.Write(Epoch(1));
  log.Write(Epoch(2));
  EXPECT_EQ(Content(),
            "epoch,learning_rate,training_loss,validation_accuracy,seconds\n"
            "1,5.000e-01,1.2500,0.7500,3.0\n"
            "2,5.000e-01,1.2500,0.7500,3.0\n");
}

TEST_F(CsvLogTest, AnotherTrainingsLinesStayUntilTheFirstEpochIsTold) {
  const std::string theirs = "the lines of another training, which are longer than ours\n";
  std::ofstream(file_) << theirs << theirs << theirs;
  { CsvLog refused(file_); }
  EXPECT_EQ(Content(), theirs + theirs + theirs);
  CsvLog log(file_);
  log.Write(Epoch(1));
  EXPECT_EQ(Content(),
            "epoch,learning_rate,training_loss,validation_accuracy,seconds\n"
            "1,5.000e-01,1.2500,0.7500,3.0\n");
}

TEST_F(CsvLogTest, AFileThatCannotBeOpenedIsToldAtTheStart) {
  std::filesystem::create_directories(file_);
  EXPECT_THROW(CsvLog log(file_), std::runtime_error);
}

// A disk that is full: what opens, and takes nothing.
TEST_F(CsvLogTest, ALineThatCannotBeWrittenIsTold) {
  CsvLog log("/dev/full");
  EXPECT_THROW(log.Write(Epoch(1)), std::runtime_error);
}

}  // namespace
}  // namespace fovea::models::training
