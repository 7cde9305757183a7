#include "client/cpp/cli/measuring_progress.h"

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
    console_.err << std::flush;
  };
}

}  // namespace fovea::client
