// Dense attention on the CPU, a block of rows at a time (shared/cpu_token_sets.h): the products
// with all keys, their softmax in place, the product with the values.
#include "kernels/attention/dense_attention/cpu_blocks.h"

#include <cstdint>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/dense_attention/cpu_blocks.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/shared/cpu_token_sets-inl.h"
#include "kernels/attention/shared/cpu_weights-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

void AttendAllKeys(const TokenSetsJob& job, const WeightingTerms& weighting,
                   const TokenSetsScratch& scratch, int64_t begin, int64_t end) {
  AttendTokenSets(
      job, scratch, begin, end, [](const Block&, const Panel&) HWY_ATTR {},
      [&](const Block& block, const Panel& panel) HWY_ATTR {
        LogitTerms terms{.scale = job.scale};
        if (job.bias != nullptr && job.bias_query == 0) {
          terms.key_bias = BiasOf(job, block);
          terms.key_bias_stride = job.bias_key;
        } else if (job.bias != nullptr) {
          TransposeBias(job, BiasOf(job, block), block.rows, block.width, scratch.adjusted);
          terms.bias = scratch.adjusted;
          terms.bias_stride = block.width;
        }
        WeighPanel(panel, terms, weighting);
      });
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::attend {

int64_t AllKeysWorkspace(const TokenSetsJob& job) {
  return job.bias != nullptr && job.bias_query != 0 ? job.keys * job.block_width : 0;
}

void AttendAllKeys(const TokenSetsJob& job, const WeightingTerms& weighting,
                   const TokenSetsScratch& scratch, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(AttendAllKeys)(job, weighting, scratch, begin, end);
}

}  // namespace fovea::kernels::attend
#endif  // HWY_ONCE
