#include "model_zoo/training/report.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

namespace fovea::models::training {
namespace {

constexpr int kWidth = 40;              // of the bar, in characters
constexpr double kBetweenReadings = 5;  // seconds

template <typename... Values>
std::string Format(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

CsvLog::CsvLog(std::filesystem::path file) : path_(std::move(file)) {
  if (path_.empty()) return;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path());
  file_.open(path_, std::ios::app);
  if (!file_) throw std::runtime_error("could not write " + path_.string());
}

void CsvLog::Write(const EpochReport& report) {
  if (!file_.is_open()) return;
  std::vector<Measure> measures = report.training;
  measures.insert(measures.end(), report.validation.begin(), report.validation.end());
  if (!has_names_) {
    // What was there: another training's lines, or this one's, whose epochs are told again. A pipe
    // or a terminal has no size.
    if (std::filesystem::is_regular_file(path_)) std::filesystem::resize_file(path_, 0);
    file_ << "epoch,learning_rate";
    for (const Measure& measure : measures) file_ << ',' << measure.name;
    file_ << ",seconds\n";
    has_names_ = true;
  }
  file_ << Format("%d,%.3e", report.epoch, report.learning_rate);
  for (const Measure& measure : measures) file_ << Format(",%.4f", measure.value);
  file_ << Format(",%.1f", report.seconds) << std::endl;
  if (!file_) throw std::runtime_error("could not write " + path_.string());
}

ProgressBar::ProgressBar(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) != 0) {}

void ProgressBar::Show(const StepReport& step) {
  if (!terminal_) return;
  const auto done = static_cast<int>(kWidth * step.step / step.total_steps);
  const std::string bar = std::string(done, '#') + std::string(kWidth - done, '.');
  std::fprintf(out_, "\r[%s] %3d%%  step %lld of %lld  loss %.3f ", bar.c_str(),
               static_cast<int>(100 * step.step / step.total_steps),
               static_cast<long long>(step.step), static_cast<long long>(step.total_steps),
               step.loss);
  std::fflush(out_);
}

void ProgressBar::Line(const std::string& text) {
  std::fprintf(out_, "%s%s\n", terminal_ ? "\r\033[K" : "", text.c_str());
  std::fflush(out_);
}

ReadingLines::ReadingLines(std::FILE* out, std::function<double()> seconds)
    : out_(out), seconds_(seconds ? std::move(seconds) : SteadySeconds), last_(seconds_()) {}

void ReadingLines::Show(const char* what, uint64_t done, uint64_t all) {
  const std::lock_guard lock(mutex_);
  const double now = seconds_();
  if (now - last_ < kBetweenReadings) return;
  last_ = now;
  const std::string of = all > 0 ? " of " + std::to_string(all) : "";
  std::fprintf(out_, "fovea-train: read %llu%s %s\n", static_cast<unsigned long long>(done),
               of.c_str(), what);
  std::fflush(out_);
}

void TellBesideTheBar(const std::string& text) {
  std::fprintf(stderr, "%sfovea-train: %s\n", isatty(fileno(stderr)) != 0 ? "\r\033[K" : "",
               text.c_str());
}

std::string Describe(const EpochReport& report, int epochs) {
  std::string line = Format("epoch %3d of %d", report.epoch, epochs);
  for (const auto* measures : {&report.training, &report.validation}) {
    for (const Measure& measure : *measures) {
      std::string name = measure.name;
      std::ranges::replace(name, '_', ' ');
      line += "  " + name + Format(" %.4f", measure.value);
    }
  }
  return line + Format("  %.0f s", report.seconds);
}

}  // namespace fovea::models::training
