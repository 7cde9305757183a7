// The CUDA kernels of window and axially expanded window attention, run on the host thread block by
// thread block.
#include "tests/kernels/cuda_on_host/online.h"
// Above: before the kernels' headers.
#include <array>
#include <cmath>
#include <limits>

#include "kernels/attention/axial_window_attention/cuda_job.h"
#include "kernels/attention/window_attention/cuda_job.h"

namespace fovea::kernels {
namespace {

using cuda_on_host::ExpectNear;
using cuda_on_host::InFp64;
using cuda_on_host::OutputLike;

using Sizes = std::array<int64_t, 2>;

// Query, key or value of a model: a view of one QKV tensor.
at::Tensor StridedMap(int64_t batch, int64_t heads, Sizes size, int64_t dim, at::ScalarType type) {
  return at::randn({batch, size[0], size[1], 3, heads, dim})
      .to(type)
      .select(3, 1)
      .permute({0, 3, 1, 2, 4});
}

template <class Inputs>
at::Tensor OutputOf(const Inputs& in) {
  // In memory as op.cc has it.
  const at::Tensor output = OutputLike(in.query.permute({0, 2, 3, 1, 4})).permute({0, 3, 1, 2, 4});
  cuda_on_host::ForType(in.query.scalar_type(), [&](auto element) {
    cuda_on_host::RunOnline<decltype(element)>(MakeJob<decltype(element)>(in, output));
  });
  return output;
}

class WindowsCudaTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(41); }

  WindowAttentionInputs Windows(int64_t batch, int64_t heads, Sizes map, int64_t dim, Sizes window,
                                Sizes shift) {
    const auto tokens = [&] { return StridedMap(batch, heads, map, dim, GetParam()); };
    return {tokens(), tokens(), tokens(), window, shift, 0.4, std::nullopt};
  }
  static void ExpectRight(const WindowAttentionInputs& in) {
    ExpectNear(OutputOf(in),
               WindowAttentionReference({in.query.to(at::kDouble), in.key.to(at::kDouble),
                                         in.value.to(at::kDouble), in.window, in.shift, in.scale,
                                         InFp64(in.bias)}));
  }

  AxialWindowAttentionInputs Axial(int64_t batch, int64_t heads, Sizes map, int64_t dim,
                                   int64_t window, int64_t shift) {
    const auto tokens = [&] { return StridedMap(batch, heads, map, dim, GetParam()); };
    return {tokens(), tokens(), tokens(), window, shift, 0.4, {}, {}, {}, {}, {}};
  }
  static void ExpectRight(const AxialWindowAttentionInputs& in) {
    ExpectNear(OutputOf(in),
               AxialWindowAttentionReference(
                   {in.query.to(at::kDouble), in.key.to(at::kDouble), in.value.to(at::kDouble),
                    in.window, in.shift, in.scale, InFp64(in.bias_rows), InFp64(in.bias_columns),
                    InFp64(in.bias_window), InFp64(in.pad_key), InFp64(in.pad_value)}));
  }
};
INSTANTIATE_TEST_SUITE_P(, WindowsCudaTest, testing::ValuesIn(cuda_on_host::kTypes));

TEST_P(WindowsCudaTest, ShiftedWindowsOfAnyShape) {
  struct Case {
    Sizes map, window, shift;
    int64_t dim;
  };
  for (const Case& c : {Case{{7, 7}, {7, 7}, {0, 0}, 32}, Case{{14, 7}, {7, 7}, {3, 3}, 32},
                        Case{{4, 6}, {2, 3}, {1, 2}, 7}, Case{{4, 6}, {2, 3}, {1, 0}, 64},
                        Case{{4, 6}, {2, 3}, {0, 1}, 33}, Case{{3, 5}, {1, 5}, {0, 2}, 16},
                        Case{{6, 2}, {6, 1}, {4, 0}, 16}, Case{{18, 10}, {9, 10}, {4, 5}, 16},
                        Case{{1, 1}, {1, 1}, {0, 0}, 72}}) {
    SCOPED_TRACE(testing::Message() << c.map[0] << "x" << c.map[1] << " in " << c.window[0] << "x"
                                    << c.window[1] << " by " << c.shift[0] << "," << c.shift[1]);
    WindowAttentionInputs in = Windows(2, 2, c.map, c.dim, c.window, c.shift);
    ExpectRight(in);
    const int64_t tokens = c.window[0] * c.window[1];
    in.bias = at::randn({2, tokens, tokens}).transpose(1, 2);
    ExpectRight(in);
  }
}

TEST_P(WindowsCudaTest, MasksMakeZerosAndBrokenRowsNaN) {
  WindowAttentionInputs in = Windows(1, 2, {6, 6}, 8, {3, 3}, {1, 2});
  at::Tensor bias = at::randn({2, 9, 9});
  bias[0][1].fill_(-std::numeric_limits<double>::infinity());
  bias[1][2][3] = std::numeric_limits<double>::infinity();
  bias[0][5][5] = std::nan("");  // a token sees itself under every mask
  bias[1][8][0] = std::nan("");  // is masked in shifted windows
  in.bias = bias;
  ExpectRight(in);
}

TEST_P(WindowsCudaTest, RowsColumnsAndWindowsInOneLaunch) {
  struct Case {
    Sizes map;
    int64_t window, shift, dim;
  };
  for (const Case& c : {Case{{4, 4}, 2, 1, 16}, Case{{5, 7}, 3, 2, 33}, Case{{7, 17}, 7, 3, 32},
                        Case{{2, 3}, 4, 1, 64}, Case{{1, 70}, 1, 0, 7}}) {
    SCOPED_TRACE(testing::Message() << c.map[0] << "x" << c.map[1] << " in " << c.window);
    AxialWindowAttentionInputs in = Axial(1, 4, c.map, c.dim, c.window, c.shift);
    ExpectRight(in);  // padding is zeros
    const int64_t tokens = c.window * c.window;
    in.bias_rows = at::randn({1, c.map[1], c.map[1]});
    in.bias_columns = at::randn({1, c.map[0], c.map[0]});
    in.bias_window = at::randn({2, tokens, tokens});
    in.pad_key = at::randn({2, c.dim}).to(GetParam());
    in.pad_value = at::randn({2, c.dim}).to(GetParam());
    ExpectRight(in);
  }
}

TEST_P(WindowsCudaTest, EveryHeadOfTheBatchHasItsOwnPart) {
  AxialWindowAttentionInputs in = Axial(2, 8, {3, 4}, 8, 2, 1);
  in.bias_rows = at::randn({2, 4, 4});
  in.bias_columns = at::randn({2, 3, 3});
  in.bias_window = at::randn({4, 4, 4});
  in.pad_key = at::randn({4, 8}).to(GetParam());
  ExpectRight(in);
}

}  // namespace
}  // namespace fovea::kernels
