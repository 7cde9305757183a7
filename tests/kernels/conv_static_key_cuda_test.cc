// The CUDA kernel of convolutional static-key attention, run on the host thread block by thread
// block.
#include "tests/kernels/cuda_on_host/online.h"
// Above: before the kernel's header.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/conv_static_key_attention/cuda_job.h"

namespace fovea::kernels {
namespace {

using cuda_on_host::InFp64;

void ExpectRight(const ConvStaticKeyAttentionInputs& in) {
  // In memory as op.cc has it.
  const at::Tensor output = cuda_on_host::OutputLike(in.query.transpose(1, 2)).transpose(1, 2);
  const at::Tensor kernel = KernelByTap(in.weight);
  cuda_on_host::ForType(in.query.scalar_type(), [&](auto element) {
    cuda::ForWeights(in.activation, [&](auto* weights) {
      using T = decltype(element);
      using Weights = std::remove_pointer_t<decltype(weights)>;
      cuda_on_host::RunOnline<T>(MakeJob<T, Weights>(in, kernel, output));
    });
  });
  cuda_on_host::ExpectNear(
      output, ConvStaticKeyAttentionReference({in.query.to(at::kDouble), in.value.to(at::kDouble),
                                               in.grid, in.weight.to(at::kDouble), InFp64(in.bias),
                                               InFp64(in.cls_key), in.activation, in.scale}));
}

constexpr Activation kSoftmax{ActivationKind::kSoftmax, 1.0, 0.0};

class ConvStaticKeyCudaTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(47); }

  ConvStaticKeyAttentionInputs Make(int64_t batch, int64_t heads, std::array<int64_t, 2> grid,
                                    int64_t dim, bool with_class, bool with_bias) {
    const int64_t positions = grid[0] * grid[1];
    // A view of one tensor.
    const auto tokens = [&] {
      return at::randn({batch, positions + with_class, 2, heads, dim})
          .to(GetParam())
          .select(2, 1)
          .transpose(1, 2);
    };
    const auto random = [&](at::IntArrayRef size, bool wanted) {
      return wanted ? std::optional(at::randn(size).to(GetParam())) : std::nullopt;
    };
    return {tokens(),
            tokens(),
            grid,
            *random({heads * positions, dim, 3, 3}, true),
            random({heads * positions}, with_bias),
            random({heads, 1, dim}, with_class),
            kSoftmax,
            0.2};
  }
};
INSTANTIATE_TEST_SUITE_P(, ConvStaticKeyCudaTest, testing::ValuesIn(cuda_on_host::kTypes));

TEST_P(ConvStaticKeyCudaTest, ConvolvesMapsOfAnyShape) {
  struct Case {
    std::array<int64_t, 2> grid;
    int64_t dim;
  };
  for (const Case& c : {Case{{1, 1}, 8}, Case{{1, 7}, 33}, Case{{7, 1}, 16}, Case{{3, 4}, 32},
                        Case{{2, 33}, 16}, Case{{9, 8}, 7}, Case{{4, 4}, 64}, Case{{2, 3}, 72}}) {
    for (const bool with_class : {false, true}) {
      SCOPED_TRACE(testing::Message() << c.grid[0] << "x" << c.grid[1] << "x" << c.dim
                                      << (with_class ? " and a class token" : ""));
      ExpectRight(Make(1, 1, c.grid, c.dim, with_class, /*with_bias=*/!with_class));
    }
  }
}

TEST_P(ConvStaticKeyCudaTest, EveryHeadHasItsOwnKeys) {
  ExpectRight(Make(2, 3, {3, 3}, 8, /*with_class=*/true, /*with_bias=*/true));
}

TEST_P(ConvStaticKeyCudaTest, EveryActivation) {
  for (const Activation& activation :
       {Activation{ActivationKind::kGelu, 1.0, 0.0}, Activation{ActivationKind::kRelu, 1.0, 0.0},
        Activation{ActivationKind::kStarRelu, 0.7, -0.3}}) {
    ConvStaticKeyAttentionInputs in =
        Make(1, 1, {4, 5}, 16, /*with_class=*/true, /*with_bias=*/true);
    in.activation = activation;
    ExpectRight(in);
  }
}

TEST_P(ConvStaticKeyCudaTest, TakesWeightsInChannelsLast) {
  ConvStaticKeyAttentionInputs in = Make(1, 2, {3, 3}, 8, /*with_class=*/false, true);
  in.weight = in.weight.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(KernelByTap(in.weight).is_alias_of(in.weight));
  ExpectRight(in);
}

TEST_P(ConvStaticKeyCudaTest, TheClassKeySeesNoNeighbours) {
  ConvStaticKeyAttentionInputs in = Make(1, 1, {5, 4}, 8, /*with_class=*/true, false);
  in.activation = {ActivationKind::kRelu, 1.0, 0.0};
  in.weight = in.weight.abs();  // an infinite neighbour makes logits of -inf, which weigh nothing
  in.cls_key = in.cls_key->abs();
  in.query.select(2, 1 + 9).select(2, 0).fill_(-std::numeric_limits<double>::infinity());
  ExpectRight(in);
}

TEST_P(ConvStaticKeyCudaTest, ABrokenTokenBreaksItsNeighboursAlone) {
  ConvStaticKeyAttentionInputs in = Make(1, 1, {5, 4}, 8, /*with_class=*/true, false);
  in.query.select(2, 1 + 9).select(2, 0).fill_(std::nan(""));
  ExpectRight(in);
}

}  // namespace
}  // namespace fovea::kernels
