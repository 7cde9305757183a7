// Time of one call, and medians.
#pragma once
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace fovea::bench {

template <class F>
double Milliseconds(const F& run) {
  const auto begin = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(run());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace fovea::bench
