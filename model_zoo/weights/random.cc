#include "model_zoo/weights/random.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fovea::models {
namespace {

constexpr int64_t kGrain = 1 << 14;

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

RandomStream::RandomStream(uint64_t seed, std::string_view name) : key_(Mix(seed)) {
  for (char c : name) {
    key_ = Mix(key_ ^ static_cast<unsigned char>(c));
  }
}

double RandomStream::Uniform(uint64_t index) const {
  return (static_cast<double>(Mix(key_ + index * 0x9e3779b97f4a7c15) >> 11) + 0.5) * 0x1p-53;
}

void RandomStream::FillNormal(const at::Tensor& tensor, double deviation) const {
  float* out = tensor.mutable_data_ptr<float>();
  const int64_t size = tensor.numel();
  // Box and Muller, two numbers at a time.
  at::parallel_for(0, (size + 1) / 2, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const auto index = static_cast<uint64_t>(2 * pair);
      const double radius = deviation * std::sqrt(-2 * std::log(Uniform(index)));
      const double angle = 2 * std::numbers::pi * Uniform(index + 1);
      out[2 * pair] = static_cast<float>(radius * std::cos(angle));
      if (2 * pair + 1 < size) {
        out[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
      }
    }
  });
}

void RandomStream::FillUniform(const at::Tensor& tensor, double bound) const {
  float* out = tensor.mutable_data_ptr<float>();
  at::parallel_for(0, tensor.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      out[i] = static_cast<float>((2 * Uniform(static_cast<uint64_t>(i)) - 1) * bound);
    }
  });
}

void Fill(const at::Tensor& tensor, float value) {
  std::fill_n(tensor.mutable_data_ptr<float>(), tensor.numel(), value);
}

}  // namespace fovea::models
