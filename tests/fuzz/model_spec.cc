// model.textproto, and behind a NUL the configuration of a load.
#include "model_zoo/folder/model_spec.h"

#include "base/limits.h"
#include "base/status.h"
#include "tests/fuzz/fuzz_target.h"

namespace fovea {

FOVEA_FUZZ_TARGET(model_spec, input) {
  const std::string_view text = input.TakeUntil('\0');
  const absl::StatusOr<ModelSpec> spec = ParseModelSpec(text, "model", input.rest());
  if (!spec.ok()) {
    FOVEA_CHECK(!ReasonOf(spec.status()).empty());
    return;
  }
  FOVEA_CHECK(spec->max_batch_size >= 1 && spec->max_batch_size <= limits::kMaxBatchSize);
  for (const int preferred : spec->batching.preferred_batch_sizes) {
    FOVEA_CHECK(preferred >= 1 && preferred <= spec->max_batch_size);
  }
  FOVEA_CHECK(spec->batching.max_queue_delay_us >= 0 &&
              spec->batching.default_queue_policy.max_queue_size >= 1);
  for (const auto& [level, policy] : spec->batching.priority_queue_policy) {
    FOVEA_CHECK(level >= 1 && level <= spec->batching.priority_levels &&
                policy.max_queue_size >= 1);
  }
}

}  // namespace fovea
