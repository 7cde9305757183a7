// k-NN attention: against the published PyTorch form, against dense attention, and the exact
// version against the fast one.
#include <c10/core/ScalarType.h>

#include <cmath>
#include <limits>

#include "kernels/attention/knn_attention/op.h"
#include "kernels/attention/knn_attention_exact/op.h"
#include "tests/bench/kernels/contest.h"

namespace fovea::bench {
namespace {

constexpr int64_t kBatch = 8;
constexpr int64_t kHeads = 3;

// What the paper's code does: a mask scattered from topk, in the input's type.
at::Tensor PublishedKnn(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        int64_t topk) {
  const at::Tensor logits =
      at::matmul(q, k.transpose(-2, -1)) * (1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  const at::Tensor index = std::get<1>(at::topk(logits, topk, -1));
  const at::Tensor mask = at::zeros_like(logits).scatter_(-1, index, 1.0);
  const at::Tensor kept = at::where(
      mask.gt(0), logits, at::full_like(logits, -std::numeric_limits<double>::infinity()));
  return at::matmul(at::softmax(kept, -1), v);
}

}  // namespace

std::vector<Contest> KnnContests(int cores) {
  std::vector<Contest> contests;
  for (const int threads : {cores, 1}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const int64_t tokens : {197, 784}) {
        for (const int64_t dim : {32, 64}) {
          const std::string size = std::to_string(tokens);
          const Contest contest{.shape = "B8 H3 N" + size + " d" + std::to_string(dim) + " k=N/2",
                                .type = type,
                                .threads = threads};
          const auto add = [&](std::string floor, std::string ours, std::string peer, int turns,
                               auto run_ours, auto run_peer, bool peer_is_dense = false) {
            Contest c = contest;
            c.floor = floor + "_" + size;
            c.ours = ours;
            c.peer = peer;
            c.turns = turns;
            c.set_up = [=]() -> Contest::Sides {
              const auto t = RandomTokens(kBatch, kHeads, tokens, dim, type);
              Contest::Sides sides{[=] { return run_ours(t[0], t[1], t[2], tokens / 2); },
                                   [=] { return run_peer(t[0], t[1], t[2], tokens / 2); }};
              if (peer_is_dense) sides.dense = [=] { return OurDense(t[0], t[1], t[2]); };
              return sides;
            };
            contests.push_back(c);
          };
          const auto knn = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              int64_t topk) { return kernels::KnnAttention(q, k, v, topk); };
          const auto exact = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                int64_t topk) { return kernels::KnnAttentionExact(q, k, v, topk); };
          const auto dense = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                int64_t) { return Sdpa(q, k, v); };
          add("knn_over_published", "knn_attention", "the published form", tokens < 500 ? 11 : 5,
              knn, PublishedKnn);
          const int turns = tokens < 500 ? 101 : 21;
          add("knn_to_dense", "knn_attention", "torch SDPA", turns, knn, dense,
              /*peer_is_dense=*/true);
          add("knn_exact_to_knn", "knn_attention_exact", "knn_attention", turns, exact, knn);
        }
      }
    }
  }
  return contests;
}

}  // namespace fovea::bench
