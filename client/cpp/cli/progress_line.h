// How far a comparison or a sweep is, on a terminal.
#pragma once

#include <functional>

#include "client/cpp/cli/console.h"
#include "client/cpp/measuring_progress.h"

namespace fovea::client {

// Writes over its own line on the console's second stream; nothing where the console shows no
// progress. The line is wiped at the end. The console outlives it.
class ProgressLine {
 public:
  explicit ProgressLine(const Console& console) : console_(console) {}
  ~ProgressLine();

  std::function<void(const MeasuringProgress&)> writer();

 private:
  const Console& console_;
};

}  // namespace fovea::client
