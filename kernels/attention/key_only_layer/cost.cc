#include "kernels/attention/key_only_layer/cost.h"

#include <initializer_list>

namespace fovea::kernels {
namespace {

// Measured with two threads of an AMD Zen 5 (AVX-512 bf16, torch 2.11.0); no GPU has been measured.
constexpr double kFp32FlopsPerNanosecond = 200;
constexpr double kHalfWidthFlopsPerNanosecond = 800;
// A number that a pass over tokens reads; the context's pass over x once for each head.
constexpr double kPassNanoseconds = 0.06;
// A number of an image's W_eff, beside its product: scaled, rounded, copied, read by another
// product.
constexpr double kEffectiveWeightNanoseconds = 0.5;
// The same of the parameters' products, and what a dozen small calls take.
constexpr double kPreparedWeightNanoseconds = 0.6;
constexpr double kPreparationNanoseconds = 25e3;

}  // namespace

double ExpectedNanoseconds(KeyOnlyPath path, const KeyOnlyLayerShape& s) {
  const double flops_per_ns = s.half_width ? kHalfWidthFlopsPerNanosecond : kFp32FlopsPerNanosecond;
  const double images = s.batch;
  const double square = static_cast<double>(s.channels) * s.channels;
  const double cube = square * s.channels;
  const double tokens = images * s.tokens * s.channels;  // numbers in x
  const double linear = 2 * tokens * s.channels / flops_per_ns;
  // Context, product and sum.
  if (path == KeyOnlyPath::kPlain) return 4 * linear + 3 * kPassNanoseconds * tokens;

  const double context = kPassNanoseconds * tokens * s.heads;
  // U_1 U_2 and W_k U_2, in fp32.
  const double preparation = s.prepared ? 0.0
                                        : kPreparationNanoseconds +
                                              2 * 2 * cube / kFp32FlopsPerNanosecond +
                                              kPreparedWeightNanoseconds * square;
  if (path == KeyOnlyPath::kHalfFolded) {
    return preparation + context + 3 * linear + kPassNanoseconds * tokens;
  }
  return preparation + context + linear +
         images * (2 * cube / flops_per_ns + kEffectiveWeightNanoseconds * square);
}

KeyOnlyPath CheapestKeyOnlyPath(const KeyOnlyLayerShape& shape) {
  KeyOnlyPath cheapest = KeyOnlyPath::kPlain;
  for (const KeyOnlyPath path : {KeyOnlyPath::kHalfFolded, KeyOnlyPath::kFolded}) {
    if (ExpectedNanoseconds(path, shape) < ExpectedNanoseconds(cheapest, shape)) cheapest = path;
  }
  return cheapest;
}

}  // namespace fovea::kernels
