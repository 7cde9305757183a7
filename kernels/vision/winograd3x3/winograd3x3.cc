#include "kernels/vision/winograd3x3/winograd3x3.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "kernels/simd/isa.h"
#include "kernels/vision/winograd3x3/cpu_tiles.h"

namespace fovea::kernels {
namespace {

using winograd3x3::Job;
using winograd3x3::kChannelStep;
using winograd3x3::kPanel;
using winograd3x3::kPoints;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Tiles of a block: as many as take 384 KiB when they are transformed, a part of the second-level
// cache; in multiples of the eight that are AVX-512's register tile of the products.
int64_t BlockTiles(int64_t in) {
  constexpr int64_t kTransformedFloats = 96 << 10;
  constexpr int64_t kRows = 8, kMost = 48;
  return std::clamp(kTransformedFloats / (kPoints * in) / kRows * kRows, kRows, kMost);
}

}  // namespace

bool Winograd3x3Takes(int64_t in, int64_t out, int64_t height, int64_t width) {
  // Below these, reading the weights once for each block costs more than is saved.
  constexpr int64_t kLeastChannels = 32, kLeastTiles = 64;
  return simd::CurrentIsa() != simd::Isa::kNone && in % kChannelStep == 0 && in >= kLeastChannels &&
         out >= kLeastChannels && DivideUp(height, 2) * DivideUp(width, 2) >= kLeastTiles;
}

at::Tensor PackWinograd3x3(const at::Tensor& weight) {
  TORCH_CHECK(weight.dim() == 4 && weight.size(2) == 3 && weight.size(3) == 3 &&
                  weight.scalar_type() == at::kFloat && weight.device().is_cpu(),
              "winograd3x3: weight must be FP32 [out, in, 3, 3] on the CPU, got ",
              weight.scalar_type(), " ", weight.sizes());
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

at::Tensor Winograd3x3(const at::Tensor& map, const at::Tensor& packed,
                       const std::optional<at::Tensor>& bias, int64_t out) {
  TORCH_CHECK(map.dim() == 4 && map.scalar_type() == at::kFloat && map.device().is_cpu(),
              "winograd3x3: map must be FP32 [N, in, height, width] on the CPU, got ",
              map.scalar_type(), " ", map.sizes());
  const int64_t images = map.size(0), in = map.size(1), height = map.size(2), width = map.size(3);
  const std::array<int64_t, 4> panels = {DivideUp(out, kPanel), kPoints, in, kPanel};
  TORCH_CHECK(packed.sizes() == at::IntArrayRef(panels) && packed.is_contiguous() &&
                  packed.scalar_type() == at::kFloat && packed.device().is_cpu(),
              "winograd3x3: packed must be PackWinograd3x3's of ", in, " to ", out,
              " channels, got ", packed.sizes());
  TORCH_CHECK(!bias || (bias->dim() == 1 && bias->size(0) == out &&
                        bias->scalar_type() == at::kFloat && bias->device().is_cpu()),
              "winograd3x3: bias must be FP32 [", out, "] on the CPU");
  TORCH_CHECK(Winograd3x3Takes(in, out, height, width), "winograd3x3: maps [", in, ", ", height,
              ", ", width, "] to ", out, " channels are not convolved here");
  const at::Tensor x = map.stride(1) == 1 ? map : map.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor bias_values = bias ? bias->contiguous() : at::Tensor();
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
  job.bias = bias ? bias_values.const_data_ptr<float>() : nullptr;
  job.in = in;
  job.out = out;
  job.height = height;
  job.width = width;
  job.tile_columns = DivideUp(width, 2);
  job.tiles = DivideUp(height, 2) * job.tile_columns;

  // parallel_for does this too, and may so change the number of threads: it must not do it between
  // here and there.
  at::internal::lazy_init_num_threads();
  const int64_t threads = at::get_num_threads();
  // As many blocks for each thread, of nearly one size. How tiles are cut into blocks changes no
  // number.
  const int64_t least = DivideUp(job.tiles, BlockTiles(in));  // of an image
  const int64_t share = DivideUp(images * least, threads) * threads;
  const int64_t block_tiles =
      DivideUp(job.tiles, std::max(least, share / std::max<int64_t>(images, 1)));
  const int64_t blocks = DivideUp(job.tiles, block_tiles);
  const int64_t used = std::min(threads, images * blocks);
  const int64_t floats =
      DivideUp(winograd3x3::ScratchFloats(job, block_tiles), 16) * 16;  // cache lines
  const at::Tensor scratch = at::empty({used, floats}, map.options());
  float* const memory = scratch.mutable_data_ptr<float>();
  at::parallel_for(0, images * blocks, 1, [&](int64_t begin, int64_t end) {
    float* const own = memory + at::get_thread_num() * floats;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block % blocks * block_tiles;
      winograd3x3::ConvolveTiles(job, own, block / blocks, first,
                                 std::min(block_tiles, job.tiles - first));
    }
  });
  return y;
}

}  // namespace fovea::kernels
