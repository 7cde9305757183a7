// The CUDA kernel of k-NN attention, run on the host thread block by thread block.
#include "tests/kernels/cuda_on_host/runtime.h"
// Above: before the kernel's header, which it makes host code of.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/attention/shared/cuda_nearest_rows.h"

namespace fovea::kernels::knn {
namespace {

using cuda_on_host::Block;

struct Shape {
  int64_t batch, heads, queries, keys;
  int dim;
  int64_t topk;
};

enum class Bias { kNone, kRandom, kMasksAndNaN };

template <class T>
class KnnCudaTest : public testing::Test {
 protected:
  // A case: QKV in one tensor [batch, tokens, 3, heads, dim], and an additive bias [queries, keys].
  struct Case {
    Shape shape;
    float scale;
    std::vector<T> qkv;
    std::vector<float> bias;

    int64_t tokens() const { return std::max(shape.queries, shape.keys); }
    int64_t TokenStride() const { return 3 * shape.heads * shape.dim; }
    const T* Row(int64_t which, int64_t batch, int64_t head, int64_t token) const {
      return &qkv[(batch * tokens() + token) * TokenStride() +
                  (which * shape.heads + head) * shape.dim];
    }
  };

  // `integers`: logits of few values, so that ties abound.
  Case Make(const Shape& shape, Bias bias, bool integers) {
    Case c{shape, integers ? 1.0f : 1.0f / std::sqrt(static_cast<float>(shape.dim)), {}, {}};
    c.qkv.resize(shape.batch * c.tokens() * c.TokenStride());
    for (T& x : c.qkv) x = T(integers ? std::round(0.7f * Normal()) : Normal());
    if (bias == Bias::kNone) return c;
    c.bias.resize(shape.queries * shape.keys);
    for (float& x : c.bias) x = integers ? 0.0f : Normal();
    if (bias == Bias::kMasksAndNaN) {
      for (float& x : c.bias) x = Normal() < 0.5f ? x : -INFINITY;
      std::fill_n(c.bias.begin(), shape.keys, -INFINITY);  // nothing is left of the first row
      if (shape.queries > 1) c.bias[shape.keys + shape.keys / 2] = NAN;
      if (shape.queries > 2) c.bias[2 * shape.keys] = INFINITY;
    }
    return c;
  }

  // [batch, queries, heads, dim]. Checks that nothing outside shared memory's layout is written.
  std::vector<T> RunKernel(const Case& c, bool resident) {
    const Shape& s = c.shape;
    std::vector<T> output(s.batch * s.queries * s.heads * s.dim, T(7.0f));
    CudaJob<T> job{};
    const auto tokens = [&](int64_t which) {
      return cuda::Tokens<const T>{c.Row(which, 0, 0, 0), c.tokens() * c.TokenStride(), s.dim,
                                   c.TokenStride()};
    };
    job.query = tokens(0);
    job.key = tokens(1);
    job.value = tokens(2);
    job.output = {output.data(), s.queries * s.heads * s.dim, s.dim, s.heads * s.dim};
    job.bias = {c.bias.empty() ? nullptr : c.bias.data(), 0, 0, s.keys, 1};
    job.batch = s.batch;
    job.heads = s.heads;
    job.queries = s.queries;
    job.keys = s.keys;
    job.topk = s.topk;
    job.dim = s.dim;
    job.padded_dim = (s.dim + cuda::kFragment - 1) / cuda::kFragment * cuda::kFragment;
    job.scale = c.scale;
    job.resident = resident;

    const size_t bytes = LayoutOf<T, Near::kLogit>(job.padded_dim, s.keys, resident).end;
    constexpr size_t kGuard = 4096;
    constexpr unsigned char kUntouched = 0xEE;
    std::vector<unsigned char> memory(64 + bytes + kGuard, kUntouched);
    unsigned char* shared = memory.data() + 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64;
    for (int64_t i = 0; i < job.Blocks(); ++i) {
      Block::Run(static_cast<unsigned>(i), kThreads,
                 [&] { RowBlock<T, Near::kLogit>(job, shared).Run(); });
    }
    EXPECT_TRUE(std::all_of(shared + bytes, memory.data() + memory.size(),
                            [](unsigned char b) { return b == kUntouched; }));
    return output;
  }

  // Compares with sorting, in fp64 but for the logits, whose ties must be the kernel's.
  void ExpectRight(const Case& c, bool resident) {
    const Shape& s = c.shape;
    const std::vector<T> output = RunKernel(c, resident);
    const double tolerance = sizeof(T) == sizeof(float) ? 2e-5 : 3e-2;
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        for (int64_t q = 0; q < s.queries; ++q) {
          const std::vector<double> expected = Expected(c, b, h, q);
          const T* row = &output[((b * s.queries + q) * s.heads + h) * s.dim];
          for (int channel = 0; channel < s.dim; ++channel) {
            const double got = static_cast<float>(row[channel]);
            if (std::isnan(expected[channel])) {
              ASSERT_TRUE(std::isnan(got)) << "row " << q;
            } else {
              ASSERT_NEAR(got, expected[channel], tolerance) << "row " << q << " of " << s.queries;
            }
          }
        }
      }
    }
  }

  static std::vector<double> Expected(const Case& c, int64_t b, int64_t h, int64_t q) {
    const Shape& s = c.shape;
    std::vector<float> logits(s.keys);
    bool broken = false;
    for (int64_t j = 0; j < s.keys; ++j) {
      double sum = 0;
      for (int i = 0; i < s.dim; ++i) {
        sum +=
            static_cast<double>(c.Row(0, b, h, q)[i]) * static_cast<double>(c.Row(1, b, h, j)[i]);
      }
      sum = sum * c.scale + (c.bias.empty() ? 0.0 : c.bias[q * s.keys + j]);
      logits[j] = static_cast<float>(sum);
      broken |= std::isnan(sum) || sum == INFINITY;
    }
    std::vector<double> out(s.dim, broken ? NAN : 0.0);
    if (broken) return out;
    std::vector<int64_t> order(s.keys);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t x, int64_t y) { return logits[x] > logits[y]; });
    double total = 0;
    for (int64_t i = 0; i < s.topk && logits[order[i]] > -INFINITY; ++i) {
      const double weight = std::exp(double{logits[order[i]]} - logits[order[0]]);
      total += weight;
      for (int channel = 0; channel < s.dim; ++channel) {
        out[channel] += weight * static_cast<double>(c.Row(2, b, h, order[i])[channel]);
      }
    }
    for (double& x : out) x = total > 0 ? x / total : 0.0;
    return out;
  }

  float Normal() { return normal_(generator_); }

 private:
  std::mt19937 generator_{29};
  std::normal_distribution<float> normal_;
};

using Types = testing::Types<float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(KnnCudaTest, Types);

TYPED_TEST(KnnCudaTest, IsRightWhetherLogitsAreKeptOrComputedAgain) {
  for (const bool resident : {true, false}) {
    for (const Bias bias : {Bias::kNone, Bias::kRandom, Bias::kMasksAndNaN}) {
      for (const Shape& shape : {Shape{1, 2, 5, 7, 8, 3}, Shape{2, 1, 33, 130, 33, 50},
                                 Shape{1, 1, 16, 64, 64, 64}, Shape{1, 1, 17, 1, 16, 1}}) {
        this->ExpectRight(this->Make(shape, bias, /*integers=*/false), resident);
      }
    }
  }
}

TYPED_TEST(KnnCudaTest, TiesGoToTheLowerIndexAcrossTiles) {
  for (const bool resident : {true, false}) {
    for (const int64_t topk : {1, 60, 100, 199}) {
      this->ExpectRight(this->Make({1, 1, 16, 200, 4, topk}, Bias::kNone, /*integers=*/true),
                        resident);
    }
  }
}

TEST(CudaOnHostTest, ABarrierThatSomeThreadsMissIsReported) {
  EXPECT_THROW(Block::Run(0, 64,
                          [] {
                            if (threadIdx.x < 40) __syncthreads();
                          }),
               std::runtime_error);
}

}  // namespace
}  // namespace fovea::kernels::knn
