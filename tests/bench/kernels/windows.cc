// Axially expanded window attention against what it replaces: three calls of SDPA, over rows,
// columns and windows, and a concatenation. AEWin's stages at 224 pixels, heads of 16 channels.
#include "kernels/attention/axial_window_attention/op.h"
#include "tests/bench/kernels/contest.h"

namespace fovea::bench {
namespace {

constexpr int64_t kBatch = 8;
constexpr int64_t kWindow = 7;

// [B, heads, side, side, d] maps in, [B, side, side, heads, d] out. `dense`: Sdpa or OurDense.
template <class Dense>
at::Tensor ThreeCalls(const std::vector<at::Tensor>& qkv, const Dense& dense) {
  const int64_t batch = qkv[0].size(0), heads = qkv[0].size(1), side = qkv[0].size(2),
                dim = qkv[0].size(4), quarter = heads / 4, windows = side / kWindow;
  const auto attend = [&](auto into_sets) {
    return dense(into_sets(qkv[0]), into_sets(qkv[1]), into_sets(qkv[2]));
  };
  const at::Tensor rows = attend([&](const at::Tensor& t) {
                            return t.narrow(1, 0, quarter).transpose(1, 2).flatten(0, 1);
                          })
                              .view({batch, side, quarter, side, dim})
                              .permute({0, 1, 3, 2, 4});
  const at::Tensor columns =
      attend([&](const at::Tensor& t) {
        return t.narrow(1, quarter, quarter).permute({0, 3, 1, 2, 4}).flatten(0, 1);
      })
          .view({batch, side, quarter, side, dim})
          .permute({0, 3, 1, 2, 4});
  const at::Tensor local =
      attend([&](const at::Tensor& t) {
        return t.narrow(1, 2 * quarter, 2 * quarter)
            .unflatten(2, {windows, kWindow})
            .unflatten(4, {windows, kWindow})
            .permute({0, 2, 4, 1, 3, 5, 6})
            .reshape({batch * windows * windows, 2 * quarter, kWindow * kWindow, dim});
      })
          .view({batch, windows, windows, 2 * quarter, kWindow, kWindow, dim})
          .permute({0, 1, 4, 2, 5, 3, 6})
          .reshape({batch, side, side, 2 * quarter, dim});
  return at::cat({rows, columns, local}, 3);
}

}  // namespace

std::vector<Contest> WindowContests(int cores) {
  struct Stage {
    int64_t side, heads;
  };
  std::vector<Contest> contests;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Stage stage : {Stage{56, 4}, {28, 8}, {14, 16}, {7, 32}}) {
      contests.push_back(
          {.floor = "aewin_over_three_calls",
           .ours = "axial_window_attention",
           .peer = "3 x SDPA, concatenated",
           .shape = "B8 H" + std::to_string(stage.heads) + " " + std::to_string(stage.side) + "x" +
                    std::to_string(stage.side) + " d16 w7",
           .type = type,
           .threads = cores,
           .turns = stage.side > 20 ? 21 : 61,
           .set_up = [=]() -> Contest::Sides {
             const auto t = RandomMaps(kBatch, stage.heads, stage.side, 16, type);
             return {[=] { return kernels::AxialWindowAttention(t[0], t[1], t[2], kWindow, 0); },
                     [=] { return ThreeCalls(t, Sdpa); }, [=] { return ThreeCalls(t, OurDense); }};
           }});
    }
  }
  return contests;
}

}  // namespace fovea::bench
