// The CUDA kernel of RoIAlign, run on the host thread by thread.
#include "tests/kernels/cuda_on_host/launch.h"
// Above: before the kernel's header.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/vision/roi_align/cuda_pool.h"
#include "tests/kernels/roi_align_truth.h"

namespace fovea::kernels::roi_align {
namespace {

using cuda_on_host::DeviceVector;
using cuda_on_host::KernelName;
using cuda_on_host::TypeName;

template <class T>
class RoiAlignCudaTest : public testing::Test {};

using Types = testing::Types<float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(RoiAlignCudaTest, Types);

TYPED_TEST(RoiAlignCudaTest, EveryOutputIsTheDefinedAverage) {
  using T = TypeParam;
  constexpr int64_t kImages = 2, kChannels = 3, kHeight = 6, kWidth = 9, kRois = 30;
  std::mt19937 generator{29};
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  DeviceVector<T> input(kImages * kChannels * kHeight * kWidth);
  for (T& x : input) x = T(uniform(generator));
  DeviceVector<float> rois(kRois * 5);
  for (int64_t k = 0; k < kRois; ++k) {
    float* roi = &rois[k * 5];
    roi[0] = static_cast<float>(k % kImages);
    for (int i = 1; i < 5; ++i) roi[i] = 12.0f * uniform(generator) + (i > 2 ? 10.0f : 0.0f);
    if (k % 3 == 0) {
      for (int i = 1; i < 5; ++i) roi[i] = std::round(roi[i]);
    }
  }
  rois[5] = -1.0f;             // no such image
  rois[10] = kImages;          // likewise
  rois[15] = std::nanf("");    // likewise
  rois[4 * 5 + 3] = INFINITY;  // no such place
  rois[5 * 5 + 3] = rois[26];  // no width

  for (const bool channels_last : {false, true}) {
    for (const int64_t sampling : {0, 1, 2, 3}) {
      for (const bool aligned : {false, true}) {
        CudaJob<T> job{};
        job.input = input.data();
        job.batch = kChannels * kHeight * kWidth;
        job.channel = channels_last ? 1 : kHeight * kWidth;
        job.row = channels_last ? kWidth * kChannels : kWidth;
        job.column = channels_last ? kChannels : 1;
        job.images = kImages;
        job.channels = kChannels;
        job.height = kHeight;
        job.width = kWidth;
        job.rois = rois.data();
        job.channels_last = channels_last;
        job.h = 4;
        job.w = 5;
        job.sampling = sampling;
        job.spatial_scale = 0.5f;
        job.aligned = aligned;
        DeviceVector<T> output(kRois * kChannels * job.h * job.w);
        job.output = output.data();
        const auto outputs = static_cast<int64_t>(output.size());
        cuda_on_host::Launch(
            KernelName("PoolKernel", TypeName<T>()),
            {(outputs + kThreads - 1) / kThreads, kThreads},
            [&](auto*) {
              const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
              if (i < outputs) PoolOutput(job, i);
            },
            job, outputs);

        const RoiAlignTruth<float> truth{kHeight, kWidth, 0.5f, job.h, job.w, sampling, aligned};
        const double tolerance = std::is_same_v<T, float> ? 1e-5 : 8e-3;
        for (size_t i = 0; i < output.size(); ++i) {
          int64_t channel, y, x;
          const int64_t k = i / (kChannels * job.h * job.w);
          const int64_t within = i % (kChannels * job.h * job.w);
          if (channels_last) {
            channel = within % kChannels;
            x = within / kChannels % job.w;
            y = within / kChannels / job.w;
          } else {
            x = within % job.w;
            y = within / job.w % job.h;
            channel = within / job.w / job.h;
          }
          const float found = static_cast<float>(output[i]);
          if (k >= 1 && k <= 4) {
            ASSERT_TRUE(std::isnan(found)) << "region " << k;
            continue;
          }
          const T* plane =
              input.data() + static_cast<int64_t>(rois[k * 5]) * job.batch + channel * job.channel;
          const double expected =
              truth
                  .At(&rois[k * 5], y, x,
                      [&](int64_t row, int64_t column) {
                        return static_cast<float>(plane[row * job.row + column * job.column]);
                      })
                  .value;
          ASSERT_NEAR(found, expected, tolerance)
              << "region " << k << ", channel " << channel << ", bin " << y << ", " << x;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::roi_align
