#include "server/compare/measure/provenance.h"

#include <omp.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/barrier_waits.h"
#include "kernels/simd/isa.h"
#include "server/core/version.h"

namespace fovea {

Provenance ProvenanceNow() {
  return {.at = absl::FormatTime("%Y-%m-%d%ET%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()),
          .by = absl::StrCat("fovea-server ", kVersion),
          .processor = kernels::simd::ProcessorName(),
          .cores = omp_get_num_procs()};
}

Provenance ProvenanceWatch::Take(int threads) {
  provenance_.other_cores = others_.CoresSinceLast();
  provenance_.busy =
      provenance_.other_cores &&
      kernels::BarrierWaitPolicy(provenance_.cores, threads).IsContended(*provenance_.other_cores);
  return provenance_;
}

}  // namespace fovea
