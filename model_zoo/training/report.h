// How a training is told: a bar and a line an epoch for people, a file for plots.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>

#include "model_zoo/training/optimisation/trainer.h"

namespace fovea::models::training {

// One line an epoch, written as it ends: what is there of a broken-off training can be read.
// Columns: epoch, learning_rate, the training's measures, those of the validation, seconds.
class CsvLog {
 public:
  // What is in the file stays until the first epoch is told: the training may be refused. An empty
  // path: no file. Throws std::runtime_error where the file cannot be opened for writing.
  explicit CsvLog(std::filesystem::path file);
  // Throws std::runtime_error where the line cannot be written.
  void Write(const EpochReport& report);

 private:
  const std::filesystem::path path_;
  std::ofstream file_;
  bool has_names_ = false;
};

// On a terminal a bar that moves, elsewhere nothing between the epochs' lines.
class ProgressBar {
 public:
  explicit ProgressBar(std::FILE* out);
  void Show(const StepReport& step);
  void Line(const std::string& text);  // in place of the bar

 private:
  std::FILE* const out_;
  const bool terminal_;
};

// Prints the progress of reading every five seconds; nothing if it is quicker. Thread-safe.
class ReadingLines {
 public:
  // From now on. `seconds`: a clock that does not go back; null: the machine's.
  explicit ReadingLines(std::FILE* out, std::function<double()> seconds = nullptr);
  // As ReadProgress tells it.
  void Show(const char* what, uint64_t done, uint64_t all);

 private:
  std::FILE* const out_;
  const std::function<double()> seconds_;
  std::mutex mutex_;
  double last_;  // line, or the beginning
};

// A line on standard error, in place of a bar that is on the same terminal.
void TellBesideTheBar(const std::string& text);

// For people.
std::string Describe(const EpochReport& report, int epochs);

}  // namespace fovea::models::training
