// Random numbers for seeded weights: the same on every machine, with any number of threads and in
// any order of parameters, which torch's generators do not promise.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace fovea::models {

// The stream that belongs to one parameter: a hash of (seed, name, index), so that elements can be
// made in parallel.
class RandomStream {
 public:
  RandomStream(uint64_t seed, std::string_view name);

  // `tensor` is FP32, contiguous and on the CPU. Normal with mean 0, or uniform in [-bound, bound).
  void FillNormal(const at::Tensor& tensor, double deviation) const;
  void FillUniform(const at::Tensor& tensor, double bound) const;

 private:
  double Uniform(uint64_t index) const;  // in (0, 1)

  uint64_t key_;
};

// Every element of an FP32 tensor on the CPU.
void Fill(const at::Tensor& tensor, float value);

}  // namespace fovea::models
