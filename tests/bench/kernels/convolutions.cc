// RP-CPE, its branches merged, against its four branches, in the widths of LinGlo's feed-forward
// layers; both layouts, of which models run the channels-last one. And Winograd's 3x3 convolution
// against oneDNN's direct one, at sizes that RetinaNet on ResNet-50 has at 800x1088.
#include "kernels/vision/rp_cpe/merge.h"
#include "kernels/vision/rp_cpe/op.h"
#include "kernels/vision/winograd3x3/winograd3x3.h"
#include "tests/bench/kernels/contest.h"

namespace fovea::bench {
namespace {

constexpr int64_t kBranches = 4;

Contest::Sides Branches(int64_t batch, int64_t channels, int64_t side, at::ScalarType type,
                        at::MemoryFormat layout) {
  const at::Tensor x = at::randn({batch, channels, side, side}).to(type).contiguous(layout);
  const at::Tensor weights = (at::randn({kBranches, channels, 3, 3}) * 0.1).to(type);
  const at::Tensor biases = at::randn({kBranches, channels}).to(type);
  const kernels::RpCpeWeights merged = kernels::MergeRpCpe({weights, biases});
  return {[=] { return kernels::RpCpe(x, merged.weights, merged.biases); },
          [=] {
            at::Tensor sum = x;
            for (int64_t b = 0; b < kBranches; ++b) {
              sum = sum + at::conv2d(x, weights[b].unsqueeze(1), biases[b], /*stride=*/1,
                                     /*padding=*/1, /*dilation=*/1, /*groups=*/channels);
            }
            return sum;
          }};
}

struct Convolution {
  int64_t in, out, height, width;
};

Contest::Sides WinogradAndDirect(const Convolution& c) {
  const at::MemoryFormat layout = at::MemoryFormat::ChannelsLast;
  const at::Tensor map = at::randn({1, c.in, c.height, c.width}).contiguous(layout);
  const at::Tensor weight = (at::randn({c.out, c.in, 3, 3}) * 0.02).contiguous(layout);
  const at::Tensor bias = at::randn({c.out}), packed = kernels::PackWinograd3x3(weight);
  return {[=] { return kernels::Winograd3x3(map, packed, bias, c.out); },
          [=] { return at::conv2d(map, weight, bias, /*stride=*/1, /*padding=*/1); }};
}

}  // namespace

std::vector<Contest> ConvolutionContests(int cores) {
  struct Stage {
    int64_t channels, side;
  };
  std::vector<Contest> contests;
  for (const Convolution& c : {Convolution{64, 64, 200, 272},
                               {128, 128, 100, 136},
                               {256, 256, 100, 136},
                               {256, 819, 100, 136},
                               {256, 36, 100, 136},
                               {256, 256, 25, 34},
                               {512, 512, 25, 34}}) {
    contests.push_back({.floor = "winograd3x3_over_direct",
                        .ours = "winograd3x3",
                        .peer = "conv2d",
                        .shape = "B1 C" + std::to_string(c.in) + " to " + std::to_string(c.out) +
                                 " " + std::to_string(c.height) + "x" + std::to_string(c.width),
                        .type = at::kFloat,
                        .threads = cores,
                        .turns = 21,
                        .set_up = [=] { return WinogradAndDirect(c); }});
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t batch : {1, 8}) {
      for (const Stage s : {Stage{512, 56}, {1024, 28}, {1280, 14}, {2048, 7}}) {
        for (const at::MemoryFormat layout :
             {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
          if (layout == at::MemoryFormat::Contiguous && batch == 8) continue;
          const bool channels_last = layout == at::MemoryFormat::ChannelsLast;
          contests.push_back(
              {.floor = "rp_cpe_over_branches",
               .ours = "rp_cpe, merged",
               .peer = "four branches of conv2d",
               .shape = BatchText(batch) + " C" + std::to_string(s.channels) + " " +
                        std::to_string(s.side) + "x" + std::to_string(s.side) +
                        (channels_last ? " NHWC" : " NCHW"),
               .type = type,
               .threads = cores,
               .turns = batch * s.side * s.side > 3000 ? 11 : 41,
               .set_up = [=] { return Branches(batch, s.channels, s.side, type, layout); }});
        }
      }
    }
  }
  return contests;
}

}  // namespace fovea::bench
