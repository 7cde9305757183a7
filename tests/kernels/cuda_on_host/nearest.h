// Runs jobs of shared/cuda_nearest.h, and what tests of both k-NN operators have in common.
#pragma once
#include "tests/kernels/cuda_on_host/online.h"
// Above: before the kernel's header.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/attention/shared/cuda_nearest.h"

namespace fovea::kernels::cuda_on_host {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Logits { kKept, kComputedAgain };

// As cuda_nearest_launch.h launches it. Rows that are short enough for registers may be computed
// again too.
template <class T, class Job>
void RunNearest(const Job& job, Logits logits) {
  const int64_t keys = logits == Logits::kKept ? job.size.keys : INT64_MAX;
  cuda::ForDepth(job.size.dim, [&](auto depth) {
    knn::ForKeptTiles(keys, [&](auto tiles) {
      constexpr int kDepth = decltype(depth)::value;
      constexpr int kTiles = decltype(tiles)::value;
      using Block = knn::NearestBlock<T, Job, kDepth, kTiles>;
      const cuda::TileLayout<T, Job, kDepth> layout(job.size);
      Launch(
          KernelName("NearestKernel", TypeName<T>(), TypeName<Job>(), kDepth, kTiles),
          {job.Blocks(layout.rows) * layout.chunks, layout.Threads(), Block::SharedBytes(layout)},
          [&](auto* shared) { Block(job, shared).Run(); }, job);
    });
  });
}

// Both ways, against the operator's definition in fp64.
template <knn::Near kNear, class Reference>
void ExpectRight(const KnnAttentionInputs& in, const Reference& reference) {
  const at::Tensor expected =
      reference({in.query.to(at::kDouble), in.key.to(at::kDouble), in.value.to(at::kDouble),
                 in.topk, in.scale, InFp64(in.bias)});
  for (const Logits logits : {Logits::kKept, Logits::kComputedAgain}) {
    SCOPED_TRACE(testing::Message()
                 << in.query.sizes() << " queries, " << in.key.size(2) << " keys, topk " << in.topk
                 << ", logits " << (logits == Logits::kKept ? "kept" : "computed again"));
    // In memory as op.cc has it.
    const at::Tensor output = OutputLike(in.query.transpose(1, 2)).transpose(1, 2);
    ForType(in.query.scalar_type(), [&](auto element) {
      using T = decltype(element);
      RunNearest<T>(knn::MakeJob<T, kNear>(in, output), logits);
    });
    ExpectNear(output, expected);
  }
}

// Sizes at which something in a kernel ends: a vector, a pair of fragments, a tile, the registers.
struct NearestShape {
  int64_t batch, heads, queries, keys, dim, topk;
};
inline constexpr NearestShape kNearestShapes[] = {
    {1, 1, 1, 1, 16, 1},     {1, 1, 2, 2, 32, 1},      {2, 1, 3, 3, 64, 2},
    {1, 2, 7, 7, 48, 3},     {1, 1, 49, 49, 32, 24},   {1, 1, 17, 64, 64, 64},
    {1, 1, 16, 65, 33, 20},  {1, 1, 33, 97, 80, 48},   {1, 1, 70, 197, 64, 98},
    {1, 1, 5, 200, 96, 150}, {1, 1, 9, 255, 32, 1},    {1, 1, 4, 256, 128, 128},
    {1, 1, 3, 257, 64, 128}, {1, 1, 20, 1025, 32, 512}};

// Query, key and value as a model has them.
inline KnnAttentionInputs RandomNearest(const NearestShape& s, at::ScalarType type) {
  const auto tokens = [&](int64_t count) {
    return at::randn({s.batch, count, 3, s.heads, s.dim}).to(type).select(2, 1).transpose(1, 2);
  };
  return {tokens(s.queries),
          tokens(s.keys),
          tokens(s.keys),
          s.topk,
          1.0 / std::sqrt(static_cast<double>(s.dim)),
          std::nullopt};
}

// Small integers, so that many logits are equal, and all exactly so.
inline KnnAttentionInputs TiedNearest(const NearestShape& s, at::ScalarType type) {
  KnnAttentionInputs in = RandomNearest(s, type);
  in.query = (0.7 * in.query).round();
  in.key = (0.7 * in.key).round();
  in.scale = 0.5;
  return in;
}

}  // namespace fovea::kernels::cuda_on_host
