#include "client/cpp/cli/progress_line.h"

#include <cstddef>

#include "absl/strings/str_format.h"

namespace fovea::client {
namespace {

constexpr char kBegin[] = "\r\033[K";

const char* Doing(MeasuringProgress::Phase phase) {
  switch (phase) {
    case MeasuringProgress::Phase::kWaiting:
      return "waiting for other experiments";
    case MeasuringProgress::Phase::kLoading:
      return "loading";
    case MeasuringProgress::Phase::kMeasuring:
      return "measuring, round";
    case MeasuringProgress::Phase::kAnalysing:
      return "analysing";
  }
  return "";
}

}  // namespace

ProgressLine::~ProgressLine() {
  if (console_.progress) console_.err << kBegin << std::flush;
}

std::function<void(const MeasuringProgress&)> ProgressLine::writer() {
  return [this](const MeasuringProgress& progress) {
    if (!console_.progress) return;
    console_.err << kBegin << Doing(progress.phase);
    if (progress.total > 0) console_.err << ' ' << progress.done << " of " << progress.total;
    for (size_t i = 1; i < progress.so_far.size(); ++i) {
      console_.err << (i == 1 ? "; times the baseline so far: " : ", ")
                   << absl::StrFormat("%.2f", progress.so_far[i].ratio);
    }
    console_.err << std::flush;
  };
}

}  // namespace fovea::client
