#include "kernels/attention/shared/cpu_windows.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/attention/shared/cpu_scratch.h"
#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/attention/shared/panels_or_tiles.h"
#include "kernels/choice/questions.h"
#include "kernels/simd/amx.h"
#include "kernels/threads.h"

namespace fovea::kernels::attend {
namespace {

Places PlacesOf(const at::Tensor& map, int64_t first_head) {
  const at::Tensor heads = map.narrow(1, first_head, 1);
  // Not mutable_data_ptr: the inputs are only read, and may be shared copy-on-write.
  return {const_cast<void*>(heads.const_data_ptr()), map.stride(0), map.stride(1), map.stride(2),
          map.stride(3)};
}

// Multiply-adds of one task.
int64_t CostOf(const WindowsJob& job) { return 2 * job.tokens() * job.tokens() * job.dim; }

// Four square windows of three heads of 32 channels, in either way.
auto TypicalCall(c10::ScalarType type, int64_t tokens) {
  return [type, tokens, qkv = at::Tensor(), output = at::Tensor(),
          bias = std::optional<at::Tensor>()](AttentionWay way) mutable {
    constexpr int64_t kHeads = 3, kDim = 32, kWindows = 2;  // along an axis
    const int64_t side = std::lround(std::sqrt(tokens));
    if (!qkv.defined()) {
      const int64_t map = kWindows * side;
      qkv = TypicalNumbers({1, map, map, 3, kHeads, kDim}, at::kFloat)
                .permute({3, 0, 4, 1, 2, 5})
                .to(type);
      output = at::empty_like(qkv[0]);
      bias = at::zeros({kHeads, tokens, tokens});
    }
    AttendWindows({MakeWindowsJob(way, qkv[0], qkv[1], qkv[2], output, 0, kHeads, {side, side},
                                  {0, 0}, 0.125, BiasFor(way, bias))});
  };
}

// The workspace of the largest of the jobs.
class WindowsLayout {
 public:
  explicit WindowsLayout(const std::vector<WindowsJob>& jobs) {
    int64_t tokens = 0;
    int64_t width = 0;
    for (const WindowsJob& job : jobs) {
      tokens = std::max(tokens, job.tokens());
      width = std::max(width, job.block_width);
    }
    const int64_t dim = jobs.front().dim;
    gathered_bytes_ = 4 * tokens * dim * 4;
    slices_ = layout_.Take(tokens + width);
    gathered_ = layout_.Take(gathered_bytes_ / 4);
    if (jobs.front().way == AttentionWay::kTiles) {
      int64_t tiles_bytes = 0, masked = 0;
      for (const WindowsJob& job : jobs) {
        tiles_bytes = std::max(tiles_bytes, TilesScratchBytes(TilesJobOf(job)));
        const bool shifted = job.shift[0] > 0 || job.shift[1] > 0;
        if (shifted) masked = std::max(masked, job.tokens() * job.tokens());
      }
      masked_bias_ = layout_.Take(masked);
      tiles_ = layout_.Take(tiles_bytes / 4);
      return;
    }
    logits_ = layout_.Take((tokens + 1) * width);
    query_ = layout_.Take(dim * width);
    output_ = layout_.Take(dim * width);
    row_factors_ = layout_.Take(width);
    key_ = layout_.Take(tokens * dim);
    value_ = layout_.Take((tokens + 1) * dim);
  }

  const ScratchLayout& scratch() const { return layout_; }

  WindowsScratch At(float* base) const {
    return {base + logits_,      base + query_,
            base + output_,      base + row_factors_,
            base + key_,         base + value_,
            base + slices_,      reinterpret_cast<char*>(base + gathered_),
            base + masked_bias_, reinterpret_cast<char*>(base + tiles_)};
  }

 private:
  ScratchLayout layout_;
  int64_t gathered_bytes_;
  int64_t slices_ = 0, gathered_ = 0;
  int64_t masked_bias_ = 0, tiles_ = 0;  // of kTiles
  int64_t logits_ = 0, query_ = 0, output_ = 0, row_factors_ = 0, key_ = 0, value_ = 0;  // kPanels
};

}  // namespace

WindowsJob MakeWindowsJob(AttentionWay way, const at::Tensor& query, const at::Tensor& key,
                          const at::Tensor& value, const at::Tensor& output, int64_t first_head,
                          int64_t heads, std::array<int64_t, 2> window,
                          std::array<int64_t, 2> shift, double scale,
                          const std::optional<at::Tensor>& bias) {
  WindowsJob job{};
  job.way = way;
  job.arithmetic = ChooseArithmetic(query, output, query.size(4));
  job.query = PlacesOf(query, first_head);
  job.key = PlacesOf(key, first_head);
  job.value = PlacesOf(value, first_head);
  job.output = PlacesOf(output, first_head);
  job.batch = query.size(0);
  job.heads = heads;
  job.height = query.size(2);
  job.width = query.size(3);
  job.dim = query.size(4);
  job.window = window;
  job.shift = shift;
  job.windows = {(job.height + window[0] - 1) / window[0], (job.width + window[1] - 1) / window[1]};
  if (bias) {
    job.bias = bias->const_data_ptr<float>();
    job.bias_head = bias->stride(0);
    job.bias_row = bias->stride(1);
  }
  job.scale = static_cast<float>(scale);
  job.block_width = BlockWidth(job.arithmetic);
  return job;
}

std::optional<at::Tensor> BiasFor(AttentionWay way, const std::optional<at::Tensor>& bias) {
  if (!bias) return std::nullopt;
  if (way == AttentionWay::kTiles) return bias->contiguous();
  const int64_t lanes = LanesNow();
  const int64_t queries = bias->size(1);
  return at::constant_pad_nd(bias->transpose(1, 2),
                             {0, (queries + lanes - 1) / lanes * lanes - queries})
      .contiguous();
}

AttentionWay FastestWindowsWay(c10::ScalarType type, int64_t tokens, int64_t dim) {
  const bool fp32 = type == at::kFloat;
  const Arithmetic arithmetic = fp32 ? Arithmetic::kFp32 : Arithmetic::kWidenedBf16;
  if (!FitsTiles(OneHeadJob(arithmetic, tokens, dim, dim))) return AttentionWay::kPanels;
  // What is asked has heads that fill a step of the tiles' depth. One that is half zeros takes as
  // long: in fp32 AEWin's windows of 16 channels were 2.3 to 2.7 times as fast as SDPA by panels
  // and 1.1 to 1.5 by tiles (docs/results/kernels_cpu, on AMX).
  if (fp32 && dim <= simd::kStep / 2) return AttentionWay::kPanels;
  static PanelsOrTiles<2> questions("window_attention", {8 * 8, 16 * 16});
  return questions.Faster(type, tokens, [&](int64_t size) { return TypicalCall(type, size); });
}

TokenSetsJob TilesJobOf(const WindowsJob& job) {
  TokenSetsJob tiles = OneHeadJob(job.arithmetic, job.tokens(), job.dim, job.dim);
  tiles.scale = job.scale;
  return tiles;
}

void AttendWindows(const std::vector<WindowsJob>& jobs) {
  const WindowsLayout layout(jobs);
  int64_t tasks = 0;
  int64_t cost = 0;
  for (const WindowsJob& job : jobs) {
    tasks += job.tasks();
    cost += job.tasks() * CostOf(job);
  }
  // Starting a thread costs about a million multiply-adds.
  const int64_t threads =
      std::clamp<int64_t>(cost / (int64_t{1} << 20), 1, std::min(ThreadCount(), tasks));
  const at::Tensor memory = AllocateScratch(layout.scratch(), threads);
  float* const base = memory.mutable_data_ptr<float>();
  const int64_t chunk =
      std::max<int64_t>(1, tasks * (int64_t{1} << 16) / std::max<int64_t>(cost, 1));

  // Windows of several sizes cost differently: each thread takes the next ones when it has time.
  std::atomic<int64_t> next{0};
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    std::optional<simd::AmxTiles> tiles;
    if (jobs.front().way == AttentionWay::kTiles) tiles.emplace();
    for (int64_t thread = begin; thread < end; ++thread) {
      const WindowsScratch scratch = layout.At(base + thread * layout.scratch().floats());
      for (int64_t first; (first = next.fetch_add(chunk)) < tasks;) {
        for (int64_t i = first; i < std::min(first + chunk, tasks); ++i) {
          int64_t task = i;
          const WindowsJob* job = jobs.data();
          while (task >= job->tasks()) task -= (job++)->tasks();
          AttendWindow(*job, scratch, task);
        }
      }
      if (!tiles) ReleaseWindows(jobs.front());
    }
  });
}

}  // namespace fovea::kernels::attend
