// The metrics that Prometheus expects of every process: memory, processor time, open files, start
// time.
#pragma once

#include <prometheus/collectable.h>

#include <vector>

namespace fovea {

// Reads /proc/self at every scrape. Thread-safe.
class ProcessCollector final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace fovea
