// How an experiment of the server's goes on, on a terminal.
#pragma once

#include <functional>

#include "client/cpp/cli/console.h"
#include "client/cpp/comparison.h"

namespace fovea::client {

// Writes over its own line on the console's second stream; nothing where the console shows no
// progress. The line is wiped at the end. The console outlives it.
class MeasuringProgress {
 public:
  explicit MeasuringProgress(const Console& console) : console_(console) {}
  ~MeasuringProgress();

  std::function<void(const CompareProgress&)> teller();

 private:
  const Console& console_;
};

}  // namespace fovea::client
