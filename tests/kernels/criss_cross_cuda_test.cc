// The CUDA kernels of criss-cross attention, run on the host thread block by thread block.
#include "tests/kernels/cuda_on_host/online.h"
// Above: before the kernels' header.
#include <array>
#include <cmath>

#include "kernels/attention/criss_cross_attention/cuda_job.h"

namespace fovea::kernels {
namespace {

void ExpectRight(const CrissCrossAttentionInputs& in) {
  // In memory as op.cc has it.
  const at::Tensor output =
      cuda_on_host::OutputLike(in.query.permute({0, 2, 3, 1, 4})).permute({0, 3, 1, 2, 4});
  const at::Tensor saved = EmptySavedStates(in.query);
  cuda_on_host::ForType(in.query.scalar_type(), [&](auto element) {
    using T = decltype(element);
    cuda_on_host::RunOnline<T>(MakeJob<T, Lines::kColumns>(in, saved, output));
    cuda_on_host::RunOnline<T>(MakeJob<T, Lines::kRows>(in, saved, output));
  });
  cuda_on_host::ExpectNear(
      output, CrissCrossAttentionReference({in.query.to(at::kDouble), in.key.to(at::kDouble),
                                            in.value.to(at::kDouble), in.scale}));
}

class CrissCrossCudaTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(43); }

  CrissCrossAttentionInputs Make(int64_t batch, int64_t heads, int64_t height, int64_t width,
                                 int64_t dim) {
    // A view of one QKV tensor.
    const auto tokens = [&] {
      return at::randn({batch, height, width, 3, heads, dim})
          .to(GetParam())
          .select(3, 1)
          .permute({0, 3, 1, 2, 4});
    };
    return {tokens(), tokens(), tokens(), 0.6};
  }
};
INSTANTIATE_TEST_SUITE_P(, CrissCrossCudaTest, testing::ValuesIn(cuda_on_host::kTypes));

TEST_P(CrissCrossCudaTest, RowAndColumnMakeOneSoftmax) {
  for (const auto& [height, width, dim] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 7}, {1, 7, 32}, {7, 1, 33}, {7, 5, 64}, {2, 66, 8}, {70, 3, 16}, {3, 2, 97}}) {
    SCOPED_TRACE(testing::Message() << height << "x" << width << "x" << dim);
    ExpectRight(Make(1, 2, height, width, dim));
  }
}

TEST_P(CrissCrossCudaTest, EveryHeadOfTheBatchIsApart) { ExpectRight(Make(2, 3, 3, 4, 8)); }

TEST_P(CrissCrossCudaTest, ABrokenKeyBreaksItsRowAndColumnAlone) {
  CrissCrossAttentionInputs in = Make(1, 1, 5, 6, 16);
  in.key.select(2, 2).select(2, 3).select(2, 0).fill_(std::nan(""));
  ExpectRight(in);
}

TEST_P(CrissCrossCudaTest, EitherPartMayOutweighTheOther) {
  CrissCrossAttentionInputs in = Make(1, 1, 4, 4, 16);
  in.query = at::ones_like(in.query);
  in.key.select(2, 1).mul_(30.0);  // one row's keys
  ExpectRight(in);
}

}  // namespace
}  // namespace fovea::kernels
