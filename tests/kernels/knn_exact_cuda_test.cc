// The CUDA kernel of exact k-NN attention, run on the host thread block by thread block.
#include "tests/kernels/cuda_on_host/nearest.h"
// Above: before the kernel's headers.
#include "kernels/attention/knn_attention_exact/implementations.h"
#include "tests/kernels/token_set_cases.h"

namespace fovea::kernels {
namespace {

using cuda_on_host::kInfinity;
using cuda_on_host::NearestShape;
using cuda_on_host::RandomNearest;

void ExpectRight(const KnnAttentionInputs& in) {
  cuda_on_host::ExpectRight<knn::Near::kEuclidean>(in, KnnAttentionExactReference);
}

// With queries that leave no doubt about what is nearest.
void ExpectRightWithMargin(KnnAttentionInputs in) {
  in.query = WithMargin(KnnExactCase({in.query, in.key, in.value, in.bias.value_or(at::Tensor())},
                                     in.topk, in.bias.value_or(at::Tensor()), in.scale))
                 .inputs[0];
  ExpectRight(in);
}

class KnnExactCudaTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(37); }
};
INSTANTIATE_TEST_SUITE_P(, KnnExactCudaTest, testing::ValuesIn(cuda_on_host::kTypes));

TEST_P(KnnExactCudaTest, IsRightAtAwkwardSizes) {
  for (const NearestShape& shape : cuda_on_host::kNearestShapes) {
    ExpectRightWithMargin(RandomNearest(shape, GetParam()));
  }
}

TEST_P(KnnExactCudaTest, WeighsByLogitsWhatItSelectsByDistance) {
  for (const int64_t keys : {90, 300}) {
    KnnAttentionInputs in = RandomNearest({2, 1, 16, keys, 8, 30}, GetParam());
    in.bias = 8.0 * at::randn({2, 1, 1, keys}).expand({2, 1, 16, keys});
    ExpectRightWithMargin(in);
    in.scale = -2.0;  // the nearest keys have the least logits
    ExpectRightWithMargin(in);
  }
}

TEST_P(KnnExactCudaTest, TiesGoToTheLowerIndex) {
  for (const int64_t topk : {1, 60, 139}) {
    KnnAttentionInputs in = cuda_on_host::TiedNearest({2, 1, 16, 140, 4, topk}, GetParam());
    in.bias = at::randn({140}).expand({2, 1, 16, 140});  // what is tied has different weights
    ExpectRight(in);
  }
}

TEST_P(KnnExactCudaTest, KeysWithoutAFiniteBiasAreNoNeighbours) {
  KnnAttentionInputs in = RandomNearest({2, 1, 5, 70, 16, 40}, GetParam());
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
  for (const double scale : {0.5, -0.5}) {
    KnnAttentionInputs in = RandomNearest({2, 1, 5, 70, 16, 67}, GetParam());
    in.scale = scale;
    in.query = in.query.abs();
    for (const int64_t key : {0, 33, 64, 69}) in.key.select(2, key).fill_(-kInfinity);
    ExpectRight(in);
    in.query.select(2, 2).neg_();  // a proximity of inf - inf
    ExpectRight(in);
  }
}

}  // namespace
}  // namespace fovea::kernels
