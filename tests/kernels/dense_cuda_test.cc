// The CUDA kernels of dense and static-key attention, run on the host thread block by thread block.
#include "tests/kernels/cuda_on_host/online.h"
// Above: before the kernels' headers.
#include <limits>
#include <vector>

#include "kernels/attention/dense_attention/cuda_job.h"
#include "kernels/attention/static_key_attention/cuda_job.h"

namespace fovea::kernels {
namespace {

using cuda_on_host::ExpectNear;
using cuda_on_host::InFp64;
using cuda_on_host::OutputLike;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Query, key or value of a model: a view of one QKV tensor.
at::Tensor Strided(int64_t batch, int64_t heads, int64_t tokens, int64_t dim, at::ScalarType type) {
  return at::randn({batch, tokens, 3, heads, dim}).to(type).select(2, 1).transpose(1, 2);
}

struct Shape {
  int64_t batch, heads, queries, keys, dim;
};

DenseAttentionInputs Dense(const Shape& s, at::ScalarType type) {
  return {Strided(s.batch, s.heads, s.queries, s.dim, type),
          Strided(s.batch, s.heads, s.keys, s.dim, type),
          Strided(s.batch, s.heads, s.keys, s.dim, type), 0.3, std::nullopt};
}

void ExpectRight(const DenseAttentionInputs& in) {
  // In memory as op.cc has it.
  const at::Tensor output = OutputLike(in.query.transpose(1, 2)).transpose(1, 2);
  cuda_on_host::ForType(in.query.scalar_type(), [&](auto element) {
    cuda_on_host::RunOnline<decltype(element)>(MakeJob<decltype(element)>(in, output));
  });
  ExpectNear(output,
             DenseAttentionReference({in.query.to(at::kDouble), in.key.to(at::kDouble),
                                      in.value.to(at::kDouble), in.scale, InFp64(in.bias)}));
}

class DenseCudaTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(31); }
};
INSTANTIATE_TEST_SUITE_P(, DenseCudaTest, testing::ValuesIn(cuda_on_host::kTypes));

TEST_P(DenseCudaTest, IsRightAtAwkwardSizes) {
  for (const Shape& shape :
       {Shape{1, 1, 1, 1, 64}, Shape{1, 2, 2, 7, 7}, Shape{2, 1, 7, 2, 32}, Shape{1, 1, 49, 49, 33},
        Shape{1, 1, 17, 97, 64}, Shape{1, 1, 70, 130, 72}, Shape{1, 1, 3, 65, 129},
        Shape{1, 1, 1, 197, 48}}) {
    SCOPED_TRACE(testing::Message() << shape.queries << "x" << shape.keys << "x" << shape.dim);
    ExpectRight(Dense(shape, GetParam()));
  }
}

TEST_P(DenseCudaTest, TakesABiasOfAnyStrides) {
  const Shape shape{2, 2, 18, 67, 16};
  DenseAttentionInputs in = Dense(shape, GetParam());
  for (const std::vector<int64_t>& size :
       std::vector<std::vector<int64_t>>{{2, 2, 18, 67}, {1, 2, 1, 67}, {2, 1, 18, 1}}) {
    in.bias = at::randn(size).expand({2, 2, 18, 67});
    ExpectRight(in);
  }
  in.bias = at::randn({67, 18}).t().expand({2, 2, 18, 67});
  ExpectRight(in);
}

TEST_P(DenseCudaTest, MasksMakeZerosAndBrokenRowsNaN) {
  DenseAttentionInputs in = Dense({1, 1, 20, 130, 8}, GetParam());
  at::Tensor bias = at::randn({1, 1, 20, 130});
  bias = bias.masked_fill(bias > 0.5, -kInfinity);
  bias.select(2, 0).fill_(-kInfinity);                   // nothing is left
  bias.select(2, 1).narrow(2, 0, 64).fill_(-kInfinity);  // a whole tile is masked
  bias.select(2, 2).select(2, 100).fill_(kInfinity);
  bias.select(2, 3).select(2, 3).fill_(std::nan(""));
  bias.select(2, 4).select(2, 3).fill_(kInfinity);
  in.bias = bias;
  ExpectRight(in);
  in.bias = std::nullopt;
  in.query.select(2, 19).fill_(std::nan(""));
  ExpectRight(in);
}

TEST_P(DenseCudaTest, LargeLogitsDoNotOverflow) {
  DenseAttentionInputs in = Dense({1, 1, 5, 70, 64}, GetParam());
  in.scale = 40.0;
  in.query = in.query.sign();  // logits that every type represents
  in.key = in.key.sign();
  ExpectRight(in);
}

// Static keys, in every activation.
TEST_P(DenseCudaTest, StaticKeysServeTheWholeBatch) {
  const std::vector<Activation> activations = {{ActivationKind::kSoftmax, 1.0, 0.0},
                                               {ActivationKind::kGelu, 1.0, 0.0},
                                               {ActivationKind::kRelu, 1.0, 0.0},
                                               {ActivationKind::kStarRelu, 0.8, -0.4}};
  for (const Activation& activation : activations) {
    for (const Shape& shape : {Shape{2, 2, 17, 17, 32}, Shape{1, 1, 3, 97, 33}}) {
      const at::Tensor query =
          Strided(shape.batch, shape.heads, shape.queries, shape.dim, GetParam());
      query.select(2, 2).select(1, 0).fill_(std::nan(""));
      // A view, of a parameter twice as wide.
      const at::Tensor key = at::randn({shape.heads, shape.keys, 2 * shape.dim}).to(GetParam());
      const StaticKeyAttentionInputs in{
          query, key.narrow(2, 0, shape.dim),
          Strided(shape.batch, shape.heads, shape.keys, shape.dim, GetParam()), activation, 0.25};
      const at::Tensor output = OutputLike(query);
      cuda_on_host::ForType(GetParam(), [&](auto element) {
        using T = decltype(element);
        cuda::ForWeights(activation, [&](auto* weights) {
          using Weights = std::remove_pointer_t<decltype(weights)>;
          cuda_on_host::RunOnline<T>(MakeJob<T, Weights>(in, output));
        });
      });
      ExpectNear(output,
                 StaticKeyAttentionReference({query.to(at::kDouble), in.static_key.to(at::kDouble),
                                              in.value.to(at::kDouble), activation, 0.25}));
    }
  }
}

}  // namespace
}  // namespace fovea::kernels
