// Attention with convolutional static keys on AMX's tiles: patches of the queries (im2col), and
// dense attention of them (attention/shared/cpu_tiles.h).
#include "kernels/attention/conv_static_key_attention/cpu_tiles.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/amx_layout.h"
#include "kernels/threads.h"

namespace fovea::kernels::attend {
namespace {

constexpr int64_t kAcross = 3, kTaps = 9;

// A head's attention is dense attention of 3x3 patches to the convolution's weights, both with a
// tap's channels side by side: rows of a map with a border of zeros, three pixels at a time.
template <class T>
class Patches {
 public:
  Patches(const std::array<int64_t, 2>& grid, int64_t dim)
      : height_(grid[0]), width_(grid[1]), dim_(dim) {}

  int64_t numbers() const { return MapNumbers() + height_ * width_ * kTaps * dim_; }

  // Those of the tokens [begin, end) of a head, at `scratch`, which holds numbers(); the first
  // token's patch.
  const T* Take(const T* query, int64_t token_stride, int64_t begin, int64_t end,
                T* scratch) const {
    const int64_t first_row = begin / width_, end_row = (end - 1) / width_ + 1;
    T* const patches = scratch + MapNumbers();
    TakeMap(query, token_stride, std::max<int64_t>(first_row - 1, 0),
            std::min(end_row + 1, height_), scratch);
    const int64_t across = kAcross * dim_;
    for (int64_t token = begin; token < end; ++token) {
      const T* from = scratch + (token / width_ * (width_ + 2) + token % width_) * dim_;
      T* to = patches + token * kTaps * dim_;
      for (int64_t y = 0; y < kAcross; ++y, from += (width_ + 2) * dim_, to += across) {
        std::copy_n(from, across, to);
      }
    }
    return patches;
  }

 private:
  int64_t MapNumbers() const { return (height_ + 2) * (width_ + 2) * dim_; }

  // Its rows [begin, end), and the border.
  void TakeMap(const T* query, int64_t token_stride, int64_t begin, int64_t end, T* map) const {
    const int64_t row_numbers = (width_ + 2) * dim_;
    std::fill_n(map, row_numbers, T{});
    std::fill_n(map + (height_ + 1) * row_numbers, row_numbers, T{});
    for (int64_t y = begin; y < end; ++y) {
      T* to = map + (y + 1) * row_numbers;
      std::fill_n(to, dim_, T{});
      to += dim_;
      for (int64_t x = 0; x < width_; ++x, to += dim_) {
        std::copy_n(query + (y * width_ + x) * token_stride, dim_, to);
      }
      std::fill_n(to, dim_, T{});
    }
  }

  const int64_t height_, width_, dim_;
};

TokenSetsJob JobOf(const ConvStaticKeyAttentionInputs& in) {
  const bool fp32 = in.query.scalar_type() == at::kFloat;
  const int64_t dim = in.query.size(3);
  TokenSetsJob job = OneHeadJob(fp32 ? Arithmetic::kFp32 : Arithmetic::kBf16Gemm,
                                in.grid[0] * in.grid[1], kTaps * dim, dim);
  job.scale = static_cast<float>(in.scale);
  job.query.token = job.key.token = job.dim;
  job.bias_key = 1;
  return job;
}

template <class T>
void Attend(const ConvStaticKeyAttentionInputs& in, const at::Tensor& key_bias,
            const at::Tensor& output) {
  const int64_t heads = in.query.size(1), dim = in.query.size(3);
  TokenSetsJob job = JobOf(in);
  const Rows query = RowsOf(in.query), value = RowsOf(in.value), out = RowsOf(output);
  job.value.token = value.token;
  job.output.token = out.token;
  const auto* const keys = static_cast<const T*>(in.weight.const_data_ptr());

  const Patches<T> patches(in.grid, dim);
  const int64_t tiles_bytes = TilesScratchBytes(job);
  const int64_t bytes =
      tiles_bytes + (patches.numbers() * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
  const at::Tensor memory = at::empty({ThreadCount(), bytes}, at::kByte);
  char* const scratch = static_cast<char*>(memory.mutable_data_ptr());
  at::parallel_for(0, in.query.size(0) * heads * job.blocks, 1, [&](int64_t begin, int64_t end) {
    const simd::AmxTiles tiles;
    char* const own = scratch + at::get_thread_num() * bytes;
    const auto head_of = [](const Rows& rows, int64_t batch, int64_t head) {
      return static_cast<T*>(rows.data) + batch * rows.batch + head * rows.head;
    };
    while (begin < end) {
      const int64_t index = begin / job.blocks, first = begin % job.blocks;
      const int64_t last = std::min(job.blocks, first + end - begin);
      const int64_t batch = index / heads, head = index % heads;
      const auto begin_of = [&job](int64_t block) {
        return BlockBegin(job.queries, job.blocks, simd::kRegister, block);
      };
      TokenSetsJob one = job;
      one.query.data = const_cast<T*>(patches.Take(
          head_of(query, batch, head), query.token, begin_of(first),
          std::min(begin_of(last), job.queries), reinterpret_cast<T*>(own + tiles_bytes)));
      one.key.data = const_cast<T*>(keys + head * job.keys * job.dim);
      one.value.data = head_of(value, batch, head);
      one.output.data = head_of(out, batch, head);
      if (key_bias.defined()) one.bias = key_bias.const_data_ptr<float>() + head * job.keys;
      AttendOnTiles(one, own, first, last);
      begin += last - first;
    }
  });
}

}  // namespace

bool ByTiles(AttentionWay way, const ConvStaticKeyAttentionInputs& in) {
  return in.activation.kind == ActivationKind::kSoftmax && !in.cls_key &&
         in.weight.is_contiguous(at::MemoryFormat::ChannelsLast) && ByTiles(way, JobOf(in));
}

void AttendConvOnTiles(const ConvStaticKeyAttentionInputs& in, const at::Tensor& key_bias,
                       const at::Tensor& output) {
  if (in.query.scalar_type() == at::kFloat) {
    Attend<float>(in, key_bias, output);
  } else {
    Attend<uint16_t>(in, key_bias, output);
  }
}

}  // namespace fovea::kernels::attend
