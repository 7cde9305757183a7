// One measurement of the kernel benchmarks: ours against a peer, taking turns.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/attention/dense_attention/op.h"

namespace fovea::bench {

struct Contest {
  struct Sides {
    std::function<at::Tensor()> ours;
    std::function<at::Tensor()> peer;
    // The peer with our dense attention in the place of torch's, where that is what the peer is
    // made of: a sparse attention is compared with the faster of both as well.
    std::function<at::Tensor()> dense = nullptr;
  };
  // Id in tests/bench/targets.csv; with "_best_dense" after it, that of the comparison with
  // `dense`.
  std::string floor;
  std::string ours;  // what is measured
  std::string peer;  // against what
  std::string shape;
  at::ScalarType type;
  int threads;
  int turns;                      // each side runs so often; the ratio is the median of the turns'
  std::function<Sides()> set_up;  // makes the inputs, just before the measurement
};

// "B8", as contests' shapes begin.
inline std::string BatchText(int64_t batch) { return std::to_string(batch).insert(0, 1, 'B'); }

// The dense attentions at hand.
inline at::Tensor Sdpa(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v);
}
inline at::Tensor OurDense(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return kernels::DenseAttention(q, k, v);
}

// Views of one QKV tensor, as in a model: token sets [batch, heads, tokens, dim].
inline std::vector<at::Tensor> RandomTokens(int64_t batch, int64_t heads, int64_t tokens,
                                            int64_t dim, at::ScalarType type) {
  return at::randn({batch, tokens, 3, heads, dim}).to(type).permute({2, 0, 3, 1, 4}).unbind(0);
}

// The same for maps [batch, heads, side, side, dim].
inline std::vector<at::Tensor> RandomMaps(int64_t batch, int64_t heads, int64_t side, int64_t dim,
                                          at::ScalarType type) {
  return at::randn({batch, side, side, 3, heads, dim})
      .to(type)
      .permute({3, 0, 4, 1, 2, 5})
      .unbind(0);
}

// The contests of each family; their numbers are rows of the table of targets.
std::vector<Contest> KnnContests(int cores);          // rows 1 to 3
std::vector<Contest> ModelContests(int cores);        // row 4
std::vector<Contest> WindowContests(int cores);       // row 5
std::vector<Contest> StaticKeyContests(int cores);    // rows 6 and 7
std::vector<Contest> KeyOnlyContests(int cores);      // row 8
std::vector<Contest> ConvolutionContests(int cores);  // row 10

}  // namespace fovea::bench
