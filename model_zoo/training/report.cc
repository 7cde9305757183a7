#include "model_zoo/training/report.h"

#include <unistd.h>

#include <stdexcept>

namespace fovea::models::training {
namespace {

constexpr int kWidth = 40;  // of the bar, in characters

template <typename... Values>
std::string Format(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

}  // namespace

CsvLog::CsvLog(const std::filesystem::path& file) {
  if (file.empty()) return;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  file_.open(file, std::ios::trunc);
  file_ << "epoch,learning_rate,training_loss,guide_loss,training_accuracy,validation_"
           "loss,"
           "validation_accuracy,seconds"
        << std::endl;
  if (!file_) throw std::runtime_error("could not write " + file.string());
}

void CsvLog::Write(const EpochReport& report) {
  if (!file_.is_open()) return;
  file_ << Format("%d,%.3e,%.4f,%.4f,%.4f,%.4f,%.4f,%.1f", report.epoch, report.learning_rate,
                  report.training_loss, report.guide_loss, report.training_accuracy,
                  report.validation_loss, report.validation_accuracy, report.seconds)
        << std::endl;
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

std::string Describe(const EpochReport& report, int epochs) {
  return Format("epoch %3d of %d  loss %.3f  training %5.1f%%  validation %5.2f%%  %.0f s",
                report.epoch, epochs, report.training_loss, 100 * report.training_accuracy,
                100 * report.validation_accuracy, report.seconds);
}

}  // namespace fovea::models::training
