// The CUDA kernels of key-only attention, run on the host thread block by thread block.
#include "tests/kernels/cuda_on_host/launch.h"
// Above: before the kernels' header.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/attention/key_only_attention/cuda_tokens.h"

namespace fovea::kernels::key_only {
namespace {

using cuda_on_host::DeviceVector;
using cuda_on_host::KernelName;
using cuda_on_host::Launch;
using cuda_on_host::TypeName;

struct Shape {
  int64_t batch, heads, tokens;
  int dim;
};

template <class T>
class KeyOnlyCudaTest : public testing::Test {
 protected:
  // Keys and values in one tensor [batch, tokens, 2, heads, dim].
  struct Case {
    Shape shape;
    float scale;
    DeviceVector<T> kv;
    DeviceVector<float> saliency;

    int64_t TokenStride() const { return 2 * shape.heads * shape.dim; }
    int64_t At(int64_t which, int64_t batch, int64_t head, int64_t token) const {
      return (batch * shape.tokens + token) * TokenStride() +
             (which * shape.heads + head) * shape.dim;
    }
  };

  Case Make(const Shape& s) {
    Case c{s, 1.0f / std::sqrt(static_cast<float>(s.dim)), {}, {}};
    c.kv.resize(s.batch * s.tokens * c.TokenStride());
    for (T& x : c.kv) x = T(Normal());
    c.saliency.resize(s.heads * s.dim);
    for (float& x : c.saliency) x = 2.0f * Normal();
    return c;
  }

  // [batch, tokens, heads, dim]. Checks that nothing past the outputs is written.
  template <int kVector>
  DeviceVector<T> RunKernels(const Case& c) {
    const Shape& s = c.shape;
    constexpr int64_t kGuard = 1024;
    constexpr float kUntouched = 7.0f;
    const int64_t chunks = (s.tokens + kTokensOfBlock - 1) / kTokensOfBlock;
    const int64_t partials_size = s.batch * chunks * s.heads * (s.dim + 2);
    const int64_t context_size = s.batch * s.heads * s.dim;
    const int64_t output_size = s.batch * s.tokens * s.heads * s.dim;
    DeviceVector<float> partials(partials_size + kGuard, kUntouched);
    DeviceVector<float> context(context_size + kGuard, kUntouched);
    DeviceVector<T> output(output_size + kGuard, T(kUntouched));

    CudaContextJob<T> job{};
    job.key = &c.kv[0];
    job.key_batch = s.tokens * c.TokenStride();
    job.key_head = s.dim;
    job.key_token = c.TokenStride();
    job.saliency = c.saliency.data();
    job.heads = s.heads;
    job.tokens = s.tokens;
    job.chunks = chunks;
    job.dim = s.dim;
    job.scale = c.scale;
    job.partials = partials.data();
    job.context = context.data();
    const int64_t shared_bytes = SharedFloats<kVector>(s.dim) * sizeof(float);
    Launch(
        KernelName("SumChunks", TypeName<T>(), kVector),
        {s.batch * chunks * s.heads, kThreads, shared_bytes},
        [&](auto* shared) { ChunkBlock<T, kVector>(job, reinterpret_cast<float*>(shared)).Run(); },
        job);
    Launch(
        KernelName("MergeChunks", TypeName<T>()), {s.batch * s.heads, kThreads},
        [&](auto*) { MergeBlock<T>(job); }, job);

    CudaProductJob<T> product{};
    product.value = &c.kv[s.heads * s.dim];
    product.value_batch = job.key_batch;
    product.value_head = job.key_head;
    product.value_token = job.key_token;
    product.output = output.data();
    product.output_batch = s.tokens * s.heads * s.dim;
    product.output_head = s.dim;
    product.output_token = s.heads * s.dim;
    product.context = context.data();
    product.heads = s.heads;
    product.tokens = s.tokens;
    product.rows = s.batch * s.tokens * s.heads;
    product.dim = s.dim;
    Launch(
        KernelName("Multiply", TypeName<T>(), kVector),
        {(product.rows + kRowsOfBlock - 1) / kRowsOfBlock, kThreads},
        [&](auto*) { ProductBlock<T, kVector>(product); }, product);

    const auto untouched = [](auto x) { return static_cast<float>(x) == kUntouched; };
    EXPECT_TRUE(std::all_of(partials.end() - kGuard, partials.end(), untouched));
    EXPECT_TRUE(std::all_of(context.end() - kGuard, context.end(), untouched));
    EXPECT_TRUE(std::all_of(output.end() - kGuard, output.end(), untouched));
    output.resize(output_size);
    return output;
  }

  // In fp64.
  static std::vector<double> ContextOf(const Case& c, int64_t batch, int64_t head) {
    const Shape& s = c.shape;
    std::vector<double> logits(s.tokens);
    for (int64_t n = 0; n < s.tokens; ++n) {
      for (int i = 0; i < s.dim; ++i) {
        logits[n] += static_cast<double>(c.kv[c.At(0, batch, head, n) + i]) *
                     c.saliency[head * s.dim + i] * c.scale;
      }
    }
    // Not std::max_element, which NaN confuses; a softmax's sum is NaN where a logit is.
    double largest = -INFINITY;
    for (const double logit : logits) largest = logit > largest ? logit : largest;
    std::vector<double> context(s.dim);
    double sum = 0;
    for (int64_t n = 0; n < s.tokens; ++n) {
      const double weight = std::exp(logits[n] - largest);
      sum += weight;
      for (int i = 0; i < s.dim; ++i) {
        context[i] += weight * static_cast<double>(c.kv[c.At(0, batch, head, n) + i]);
      }
    }
    for (double& x : context) x /= sum;
    return context;
  }

  // An element at a time and, where that divides a head, 16 bytes.
  void ExpectRight(const Case& c) {
    constexpr int kVector = cuda::kVectorCount<T>;
    ExpectOutput(c, RunKernels<1>(c));
    if (c.shape.dim % kVector == 0) ExpectOutput(c, RunKernels<kVector>(c));
  }

  static void ExpectOutput(const Case& c, const DeviceVector<T>& output) {
    const Shape& s = c.shape;
    const double tolerance = sizeof(T) == sizeof(float) ? 1e-5 : 2e-2;
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        const std::vector<double> context = ContextOf(c, b, h);
        for (int64_t n = 0; n < s.tokens; ++n) {
          for (int i = 0; i < s.dim; ++i) {
            const double expected = context[i] * static_cast<double>(c.kv[c.At(1, b, h, n) + i]);
            const double got = output[((b * s.tokens + n) * s.heads + h) * s.dim + i];
            if (std::isnan(expected)) {
              ASSERT_TRUE(std::isnan(got)) << "token " << n << ", channel " << i;
            } else {
              ASSERT_NEAR(got, expected, tolerance * std::max(1.0, std::abs(expected)))
                  << "token " << n << ", channel " << i << " of " << s.dim;
            }
          }
        }
      }
    }
  }

 private:
  float Normal() { return normal_(generator_); }

  std::mt19937 generator_{31};
  std::normal_distribution<float> normal_;
};

using Types = testing::Types<float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(KeyOnlyCudaTest, Types);

TYPED_TEST(KeyOnlyCudaTest, AwkwardSizesAreRight) {
  for (const Shape& shape :
       {Shape{1, 1, 1, 1}, Shape{2, 3, 7, 8}, Shape{1, 2, 97, 33}, Shape{1, 1, 257, 64},
        Shape{2, 2, 260, 48}, Shape{1, 1, 64, 128}, Shape{1, 1, 65, 300}, Shape{3, 5, 3, 16},
        Shape{1, 3, 70, 80}, Shape{1, 1, 5, 1048}}) {
    this->ExpectRight(this->Make(shape));
  }
}

TYPED_TEST(KeyOnlyCudaTest, ALargestLogitMayComeLate) {
  auto c = this->Make({1, 1, 600, 16});
  for (int64_t n = 0; n < 600; ++n) {
    auto& x = c.kv[c.At(0, 0, 0, n)];
    x = TypeParam(0.05f * n);
  }
  c.saliency[0] = 4.0f;
  this->ExpectRight(c);
}

TYPED_TEST(KeyOnlyCudaTest, NaNAndInfinitiesAreSoftmaxs) {
  for (const float odd : {NAN, INFINITY, -INFINITY}) {
    for (const int64_t token : {0, 258}) {
      auto c = this->Make({1, 2, 259, 16});
      c.saliency[16] = 1.0f;
      c.kv[c.At(0, 0, 1, token)] = TypeParam(odd);
      this->ExpectRight(c);
    }
  }
  auto nothing = this->Make({1, 1, 70, 4});
  std::fill(nothing.saliency.begin(), nothing.saliency.end(), 0.0f);
  nothing.saliency[0] = 1.0f;
  for (int64_t n = 0; n < 70; ++n) nothing.kv[nothing.At(0, 0, 0, n)] = TypeParam(-INFINITY);
  this->ExpectRight(nothing);
}

}  // namespace
}  // namespace fovea::kernels::key_only
