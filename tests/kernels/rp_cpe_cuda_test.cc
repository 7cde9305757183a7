// The CUDA kernels of RP-CPE, run on the host thread by thread.
#include "tests/kernels/cuda_on_host/launch.h"
// Above: before the kernel's header.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "kernels/vision/rp_cpe/cuda_convolve.h"

namespace fovea::kernels::rp_cpe {
namespace {

using cuda_on_host::DeviceVector;
using cuda_on_host::KernelName;
using cuda_on_host::TypeName;

// Runs visit(i) as thread i of enough blocks.
template <class Job, class Visit>
void RunThreads(const std::string& kernel, const Job& job, int64_t threads, const Visit& visit) {
  cuda_on_host::Launch(
      kernel, {(threads + kThreads - 1) / kThreads, kThreads},
      [&](auto*) {
        const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
        if (i < threads) visit(i);
      },
      job, threads);
}

template <class T>
class RpCpeCudaTest : public testing::Test {
 protected:
  DeviceVector<T> Random(int64_t size, float scale) {
    DeviceVector<T> values(size);
    for (T& x : values) x = T(scale * normal_(generator_));
    return values;
  }

  // A map of the given shape by all paths that can take it, against the definition in fp64.
  void ExpectRight(int64_t images, int64_t channels, int64_t height, int64_t width) {
    constexpr int64_t kBranches = 3;
    const DeviceVector<T> x = Random(images * channels * height * width, 1.0f);
    const DeviceVector<T> weights = Random(kBranches * channels * kTaps, 0.3f);
    // Merged; aligned as torch's memory is.
    DeviceVector<cuda::Elements<float, 4>> merged((channels * kTaps + 3) / 4);
    float* const merged_weights = merged[0].at;
    DeviceVector<float> merged_biases(channels, 0.25f * kBranches);
    for (size_t i = 0; i < weights.size(); ++i) {
      merged_weights[i % (channels * kTaps)] += static_cast<float>(weights[i]);
    }

    const auto map_of = [&](auto* data, bool channels_last) {
      using Map = CudaMap<std::remove_pointer_t<decltype(data)>>;
      return channels_last ? Map{data, channels * height * width, 1, channels * width, channels}
                           : Map{data, channels * height * width, height * width, width, 1};
    };
    for (const bool channels_last : {true, false}) {
      CudaJob<T> job{};
      job.x = map_of(x.data(), channels_last);
      job.weights = merged_weights;
      job.biases = merged_biases.data();
      job.images = images;
      job.channels = channels;
      job.height = height;
      job.width = width;
      const int64_t strips = images * height * ((width + kStrip - 1) / kStrip);
      const auto check = [&](const char* path, const auto& run) {
        DeviceVector<T> y(x.size(), T(7.0f));
        job.y = map_of(y.data(), channels_last);
        run();
        ExpectDefined(job, weights, kBranches, path);
      };
      check("outputs", [&] {
        RunThreads(KernelName("OutputKernel", TypeName<T>()), job, x.size(),
                   [&](int64_t i) { ConvolveOutput(job, i); });
      });
      if (!channels_last) continue;
      check("strips", [&] {
        RunThreads(KernelName("StripKernel", 1, TypeName<T>()), job, strips * channels,
                   [&](int64_t i) { ConvolveStrip<1>(job, i); });
      });
      if (channels % 4 != 0) continue;
      check("strips of four channels", [&] {
        RunThreads(KernelName("StripKernel", 4, TypeName<T>()), job, strips * channels / 4,
                   [&](int64_t i) { ConvolveStrip<4>(job, i); });
      });
    }
  }

 private:
  void ExpectDefined(const CudaJob<T>& job, const DeviceVector<T>& weights, int64_t branches,
                     const char* path) {
    const double tolerance = std::is_same_v<T, float> ? 1e-5 : 0.06;
    for (int64_t b = 0; b < job.images; ++b) {
      for (int64_t c = 0; c < job.channels; ++c) {
        for (int64_t h = 0; h < job.height; ++h) {
          for (int64_t w = 0; w < job.width; ++w) {
            const auto x_at = [&](int64_t row, int64_t column) -> double {
              if (row < 0 || row >= job.height || column < 0 || column >= job.width) return 0.0;
              return static_cast<float>(job.x.data[b * job.x.batch + c * job.x.channel +
                                                   row * job.x.row + column * job.x.column]);
            };
            double expected = x_at(h, w) + 0.25 * branches;
            for (int64_t branch = 0; branch < branches; ++branch) {
              for (int64_t tap = 0; tap < kTaps; ++tap) {
                expected += x_at(h + tap / 3 - 1, w + tap % 3 - 1) *
                            static_cast<float>(weights[(branch * job.channels + c) * kTaps + tap]);
              }
            }
            const float found = static_cast<float>(
                job.y.data[b * job.y.batch + c * job.y.channel + h * job.y.row + w * job.y.column]);
            ASSERT_NEAR(found, expected, tolerance) << path << ", image " << b << ", channel " << c
                                                    << ", row " << h << ", column " << w;
          }
        }
      }
    }
  }

  std::mt19937 generator_{29};
  std::normal_distribution<float> normal_;
};

using Types = testing::Types<float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(RpCpeCudaTest, Types);

TYPED_TEST(RpCpeCudaTest, EveryPathIsTheDefinition) {
  for (const int64_t channels : {1, 3, 4, 12}) {
    for (const int64_t width : {1, 2, 7, 8, 9, 17}) {
      this->ExpectRight(2, channels, 1, width);
      this->ExpectRight(1, channels, 5, width);
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::rp_cpe
