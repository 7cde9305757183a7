// Cumulative counts of one model version, as Triton's statistics extension defines them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fovea {

struct DurationSum {
  uint64_t count = 0;
  uint64_t nanoseconds = 0;
};

struct ModelStatistics {
  std::string name;
  std::string version;
  uint64_t last_inference_ms = 0;  // since the epoch
  uint64_t inference_count = 0;    // images
  uint64_t execution_count = 0;    // batches
  DurationSum success, fail, queue, compute_input, compute_infer, compute_output;
  struct Batch {
    DurationSum compute_input, compute_infer, compute_output;
  };
  std::map<uint64_t, Batch> batches;            // by batch size
  std::map<std::string, int64_t> memory_bytes;  // by kind
};

// Thread-safe.
class StatisticsSource {
 public:
  virtual ~StatisticsSource() = default;
  // `name` empty: every model; `version` empty: every version of it. NOT_FOUND where nothing
  // matches a given name.
  virtual absl::StatusOr<std::vector<ModelStatistics>> Statistics(
      std::string_view name, std::string_view version) const = 0;
};

}  // namespace fovea
