// The CUDA kernel of k-NN attention, run on the host thread block by thread block.
#include "tests/kernels/cuda_on_host/nearest.h"
// Above: before the kernel's headers.
#include <stdexcept>
#include <vector>

#include "tests/kernels/token_set_cases.h"

namespace fovea::kernels {
namespace {

using cuda_on_host::kInfinity;
using cuda_on_host::NearestShape;
using cuda_on_host::RandomNearest;

void ExpectRight(const KnnAttentionInputs& in) {
  cuda_on_host::ExpectRight<knn::Near::kLogit>(in, KnnAttentionReference);
}

// With queries that leave no doubt about what is largest.
void ExpectRightWithMargin(KnnAttentionInputs in) {
  in.query = WithMargin(KnnCase({in.query, in.key, in.value, in.bias.value_or(at::Tensor())},
                                in.topk, in.bias.value_or(at::Tensor()), in.scale))
                 .inputs[0];
  ExpectRight(in);
}

class KnnCudaTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(29); }
};
INSTANTIATE_TEST_SUITE_P(, KnnCudaTest, testing::ValuesIn(cuda_on_host::kTypes));

TEST_P(KnnCudaTest, IsRightAtAwkwardSizes) {
  for (const NearestShape& shape : cuda_on_host::kNearestShapes) {
    ExpectRightWithMargin(RandomNearest(shape, GetParam()));
  }
}

TEST_P(KnnCudaTest, TakesABiasOfAnyStrides) {
  KnnAttentionInputs in = RandomNearest({2, 2, 18, 67, 16, 30}, GetParam());
  for (const std::vector<int64_t>& size :
       std::vector<std::vector<int64_t>>{{2, 2, 18, 67}, {1, 2, 1, 67}, {2, 1, 18, 1}}) {
    in.bias = at::randn(size).expand({2, 2, 18, 67});
    ExpectRightWithMargin(in);
  }
  in.bias = at::randn({67, 18}).t().expand({2, 2, 18, 67});
  ExpectRightWithMargin(in);
}

TEST_P(KnnCudaTest, TiesGoToTheLowerIndexAcrossTiles) {
  for (const int64_t topk : {1, 60, 100, 199}) {
    ExpectRight(cuda_on_host::TiedNearest({1, 1, 16, 200, 4, topk}, GetParam()));
  }
  for (const int64_t topk : {1, 64, 129}) {
    KnnAttentionInputs in = RandomNearest({1, 1, 3, 130, 16, topk}, GetParam());
    in.key = at::zeros_like(in.key);  // nothing but ties
    ExpectRight(in);
  }
}

TEST_P(KnnCudaTest, MasksMakeZerosAndBrokenRowsNaN) {
  for (const int64_t keys : {40, 130, 300}) {
    KnnAttentionInputs in = RandomNearest({1, 1, 20, keys, 8, keys / 2}, GetParam());
    at::Tensor bias = at::randn({1, 1, 20, keys});
    bias = bias.masked_fill(bias > 0.7, -kInfinity);
    bias.select(2, 0).fill_(-kInfinity);                             // nothing is left
    bias.select(2, 1).narrow(1 + 1, 0, keys - 3).fill_(-kInfinity);  // fewer than topk are
    bias.select(2, 2).select(2, keys - 1).fill_(kInfinity);
    bias.select(2, 3).select(2, 3).fill_(std::nan(""));
    bias.select(2, 4).select(2, 3).fill_(kInfinity);
    in.bias = bias;
    ExpectRight(in);
    in.bias = std::nullopt;
    in.query.select(2, 19).fill_(std::nan(""));
    in.query.select(2, 7).select(2, 1).fill_(kInfinity);
    ExpectRight(in);
  }
}

TEST_P(KnnCudaTest, LargeLogitsDoNotOverflow) {
  KnnAttentionInputs in = RandomNearest({1, 1, 5, 70, 64, 20}, GetParam());
  in.scale = 40.0;
  in.query = in.query.sign();  // logits that every type represents
  in.key = in.key.sign();
  ExpectRight(in);
}

TEST(CudaOnHostTest, ABarrierThatSomeThreadsMissIsReported) {
  EXPECT_THROW(cuda_on_host::Block::Run(0, 64,
                                        [] {
                                          if (threadIdx.x < 40) __syncthreads();
                                        }),
               std::runtime_error);
}

}  // namespace
}  // namespace fovea::kernels
