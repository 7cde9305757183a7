// The CUDA kernel of exact k-NN attention, run on the host thread block by thread block.
#include "tests/kernels/cuda_on_host/online.h"
// Above: before the kernel's header.
#include <cmath>
#include <limits>

#include "kernels/attention/knn_attention_exact/implementations.h"
#include "kernels/attention/shared/cuda_nearest_rows.h"

namespace fovea::kernels {
namespace {

using cuda_on_host::ExpectNear;
using cuda_on_host::InFp64;
using cuda_on_host::OutputLike;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kShortMemory = 0;  // no row of logits stays
constexpr int kLongMemory = 1 << 20;

KnnAttentionExactInputs Make(int64_t queries, int64_t keys, int64_t dim, int64_t topk,
                             at::ScalarType type) {
  const auto tokens = [&](int64_t count) {
    return at::randn({2, count, 3, dim}).to(type).select(2, 1).unsqueeze(1);
  };
  return {tokens(queries), tokens(keys), tokens(keys), topk, 0.5, std::nullopt};
}

void ExpectRight(const KnnAttentionExactInputs& in) {
  constexpr knn::Near kNear = knn::Near::kEuclidean;
  const at::Tensor expected =
      KnnAttentionExactReference({in.query.to(at::kDouble), in.key.to(at::kDouble),
                                  in.value.to(at::kDouble), in.topk, in.scale, InFp64(in.bias)});
  for (const int available : {kShortMemory, kLongMemory}) {
    const at::Tensor output = OutputLike(in.query);
    cuda_on_host::ForType(in.query.scalar_type(), [&](auto element) {
      using T = decltype(element);
      const auto job = knn::MakeJob<T, kNear>(in, output, available);
      ASSERT_EQ(job.resident, available == kLongMemory);
      for (int64_t i = 0; i < job.Blocks(); ++i) {
        cuda_on_host::SharedMemory shared(
            knn::LayoutOf<T, kNear>(job.padded_dim, job.keys, job.resident).end);
        cuda_on_host::Block::Run(static_cast<unsigned>(i), knn::kThreads,
                                 [&] { knn::RowBlock<T, kNear>(job, shared.data()).Run(); });
        ASSERT_TRUE(shared.GuardIsUntouched());
      }
    });
    ExpectNear(output, expected);
  }
}

class KnnExactCudaTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(37); }
};
INSTANTIATE_TEST_SUITE_P(, KnnExactCudaTest, testing::ValuesIn(cuda_on_host::kTypes));

TEST_P(KnnExactCudaTest, IsRightAtAwkwardSizes) {
  ExpectRight(Make(1, 1, 7, 1, GetParam()));
  ExpectRight(Make(17, 70, 33, 20, GetParam()));
  ExpectRight(Make(2, 97, 64, 49, GetParam()));
}

TEST_P(KnnExactCudaTest, WeighsByLogitsWhatItSelectsByDistance) {
  KnnAttentionExactInputs in = Make(16, 90, 8, 30, GetParam());
  in.bias = 8.0 * at::randn({2, 1, 1, 90}).expand({2, 1, 16, 90});
  ExpectRight(in);
  in.scale = -2.0;  // the nearest keys have the least logits
  ExpectRight(in);
}

TEST_P(KnnExactCudaTest, TiesGoToTheLowerIndex) {
  KnnAttentionExactInputs in = Make(16, 140, 4, 60, GetParam());
  in.query = in.query.round();
  in.key = in.key.round();
  in.bias = at::randn({140}).expand({2, 1, 16, 140});  // what is tied has different weights
  for (const int64_t topk : {1, 60, 139}) {
    in.topk = topk;
    ExpectRight(in);
  }
}

TEST_P(KnnExactCudaTest, KeysWithoutAFiniteBiasAreNoNeighbours) {
  KnnAttentionExactInputs in = Make(5, 70, 16, 40, GetParam());
  at::Tensor bias = at::randn({5, 70});
  bias = bias.masked_fill(bias > 0.3, -kInfinity);
  bias[0].fill_(-kInfinity);
  bias[1].narrow(0, 3, 40).fill_(std::nan(""));  // fewer than topk are left
  bias[2][69] = kInfinity;
  in.bias = bias.expand({2, 1, 5, 70});
  in.query[0][0][3][0] = std::nan("");
  in.key[1][0][69][2] = std::nan("");  // NaN in all rows that do not mask it
  ExpectRight(in);
}

TEST_P(KnnExactCudaTest, KeysInfinitelyFarAreNoNeighbours) {
  KnnAttentionExactInputs in = Make(5, 70, 16, 67, GetParam());
  in.query = in.query.abs();
  for (const int64_t key : {0, 33, 64, 69}) in.key.select(2, key).fill_(-kInfinity);
  ExpectRight(in);
}

}  // namespace
}  // namespace fovea::kernels
