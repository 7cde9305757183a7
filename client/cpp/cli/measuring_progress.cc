#include "client/cpp/cli/measuring_progress.h"

#include <cstddef>

#include "absl/strings/str_format.h"

namespace fovea::client {
namespace {

constexpr char kBegin[] = "\r\033[K";

const char* Doing(CompareProgress::Phase phase) {
  switch (phase) {
    case CompareProgress::Phase::kWaiting:
      return "waiting for other experiments";
    case CompareProgress::Phase::kLoading:
      return "loading";
    case CompareProgress::Phase::kMeasuring:
      return "measuring, round";
    case CompareProgress::Phase::kAnalysing:
      return "analysing";
  }
  return "";
}

}  // namespace

MeasuringProgress::~MeasuringProgress() {
  if (console_.progress) console_.err << kBegin << std::flush;
}

std::function<void(const CompareProgress&)> MeasuringProgress::teller() {
  return [this](const CompareProgress& progress) {
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
