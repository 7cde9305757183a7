#include "kernels/vision/conv3x3/conv3x3.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "kernels/simd/isa.h"
#include "kernels/vision/conv3x3/cpu_tiles.h"

namespace fovea::kernels {
namespace {

using conv3x3::Job;
using conv3x3::kChannelStep;
using conv3x3::kPanel;
using conv3x3::kPoints;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// As many that their transformed inputs take a part of the second-level cache; eight are a register
// tile of the products.
int64_t TilesTogether(int64_t in) {
  constexpr int64_t kTransformedFloats = 96 << 10;
  constexpr int64_t kRows = 8, kMost = 48;
  return std::clamp(kTransformedFloats / (kPoints * in) / kRows * kRows, kRows, kMost);
}

}  // namespace

bool Conv3x3Runs(int64_t in, int64_t out, int64_t height, int64_t width) {
  // Below, the weights, which are read once for TilesTogether, cost more than is saved.
  constexpr int64_t kLeastChannels = 32, kLeastTiles = 64;
  return simd::CurrentIsa() != simd::Isa::kNone && in % kChannelStep == 0 && in >= kLeastChannels &&
         out >= kLeastChannels && DivideUp(height, 2) * DivideUp(width, 2) >= kLeastTiles;
}

at::Tensor PackConv3x3(const at::Tensor& weight) {
  TORCH_CHECK(weight.dim() == 4 && weight.size(2) == 3 && weight.size(3) == 3 &&
                  weight.scalar_type() == at::kFloat,
              "weight: FP32 [out, in, 3, 3] is expected");
  const int64_t out = weight.size(0), in = weight.size(1), panels = DivideUp(out, kPanel);
  // G g G^T, in double: it is done once.
  const at::Tensor g =
      at::tensor({1.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0.0, 0.0, 1.0}, at::kDouble)
          .view({4, 3});
  const at::Tensor transformed =
      at::matmul(at::matmul(g, weight.detach().to(at::kDouble)), g.t());  // [out, in, 4, 4]
  at::Tensor padded = at::zeros({panels * kPanel, in, 4, 4}, at::kDouble);
  padded.narrow(0, 0, out).copy_(transformed);
  return padded.view({panels, kPanel, in, kPoints})
      .permute({0, 3, 2, 1})
      .to(at::kFloat)
      .contiguous();
}

at::Tensor Conv3x3(const at::Tensor& map, const at::Tensor& packed,
                   const std::optional<at::Tensor>& bias, int64_t out) {
  TORCH_CHECK(map.dim() == 4 && map.scalar_type() == at::kFloat && map.device().is_cpu(),
              "map: FP32 [N, channels, height, width] on the CPU is expected");
  const int64_t images = map.size(0), in = map.size(1), height = map.size(2), width = map.size(3);
  TORCH_CHECK(packed.dim() == 4 && packed.size(0) == DivideUp(out, kPanel) &&
                  packed.size(2) == in && packed.is_contiguous(),
              "packed: not the weights of ", in, " to ", out, " channels");
  TORCH_CHECK(Conv3x3Runs(in, out, height, width), "maps [", in, ", ", height, ", ", width,
              "] are not convolved here");
  const at::Tensor x = map.stride(1) == 1 ? map : map.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor shift = bias ? bias->contiguous() : at::Tensor();
  const at::Tensor y =
      at::empty({images, out, height, width}, map.options(), at::MemoryFormat::ChannelsLast);
  Job job{};
  job.x = x.const_data_ptr<float>();
  job.x_image = x.stride(0);
  job.x_row = x.stride(2);
  job.x_column = x.stride(3);
  job.y = y.mutable_data_ptr<float>();
  job.y_image = y.stride(0);
  job.y_row = y.stride(2);
  job.y_column = y.stride(3);
  job.weights = packed.const_data_ptr<float>();
  job.bias = bias ? shift.const_data_ptr<float>() : nullptr;
  job.in = in;
  job.out = out;
  job.height = height;
  job.width = width;
  job.tile_columns = DivideUp(width, 2);
  job.tiles = DivideUp(height, 2) * job.tile_columns;

  const int64_t together = TilesTogether(in);
  const int64_t blocks = DivideUp(job.tiles, together);  // of an image
  // parallel_for does this too, and may so change the number of threads: it must not do it between
  // here and there.
  at::internal::lazy_init_num_threads();
  const int64_t floats = DivideUp(conv3x3::ScratchFloats(job, together), 16) * 16;
  const at::Tensor scratch = at::empty({at::get_num_threads(), floats}, map.options());
  float* const memory = scratch.mutable_data_ptr<float>();
  at::parallel_for(0, images * blocks, 1, [&](int64_t begin, int64_t end) {
    float* const own = memory + at::get_thread_num() * floats;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block % blocks * together;
      conv3x3::ConvolveTiles(job, own, block / blocks, first,
                             std::min(together, job.tiles - first));
    }
  });
  return y;
}

}  // namespace fovea::kernels
