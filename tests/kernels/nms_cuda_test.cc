// The CUDA kernels of non-maximum suppression, run on the host thread block by thread block.
#include "tests/kernels/cuda_on_host/launch.h"
// Above: before the kernel's header.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/vision/nms/cuda_masks.h"

namespace fovea::kernels::nms {
namespace {

using cuda_on_host::DeviceVector;
using cuda_on_host::KernelName;
using cuda_on_host::Launch;
using cuda_on_host::TypeName;

template <class T>
class NmsCudaTest : public testing::Test {
 protected:
  // Random boxes, some of them equal, some without area.
  DeviceVector<T> Boxes(int64_t count) {
    DeviceVector<T> boxes(count * 4);
    for (int64_t i = 0; i < count; ++i) {
      for (int c = 0; c < 2; ++c) {
        const T corner = static_cast<T>(generator_() % 40);
        boxes[i * 4 + c] = corner;
        boxes[i * 4 + c + 2] = corner + static_cast<T>(generator_() % 8);
      }
    }
    return boxes;
  }

  std::vector<bool> RunKernels(const DeviceVector<T>& boxes, double iou) {
    const int64_t count = boxes.size() / 4;
    CudaJob<T> job{};
    job.boxes = boxes.data();
    job.count = count;
    job.words = (count + kBits - 1) / kBits;
    job.iou = iou;
    // What is not written must not be read.
    DeviceVector<uint64_t> masks(count * job.words, ~uint64_t{0}), removed(job.words);
    DeviceVector<unsigned char> keep(count);
    job.masks = masks.data();
    job.removed = removed.data();
    job.keep = reinterpret_cast<bool*>(keep.data());
    const int64_t box_bytes = kBits * 4 * sizeof(T);
    Launch(
        KernelName("CompareKernel", TypeName<T>()),
        {job.words * job.words, kBits, /*shared_bytes=*/0, box_bytes},
        [&](auto* shared) { CompareBlocks(job, reinterpret_cast<T*>(shared)); }, job);
    const int64_t word_bytes = (kBits + 1) * sizeof(uint64_t);
    Launch(
        KernelName("ReduceKernel", TypeName<T>()), {1, 128, /*shared_bytes=*/0, word_bytes},
        [&](auto* shared) { Reduce(job, reinterpret_cast<uint64_t*>(shared)); }, job);
    return std::vector<bool>(keep.begin(), keep.end());
  }

  static std::vector<bool> Defined(const DeviceVector<T>& boxes, double iou) {
    std::vector<bool> keep(boxes.size() / 4);
    for (size_t j = 0; j < keep.size(); ++j) {
      bool suppressed = false;
      for (size_t i = 0; i < j; ++i) {
        suppressed |= keep[i] && Suppresses(&boxes[i * 4], &boxes[j * 4], iou);
      }
      keep[j] = !suppressed;
    }
    return keep;
  }

 private:
  std::mt19937 generator_{29};
};

using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(NmsCudaTest, Types);

TYPED_TEST(NmsCudaTest, BlocksOfBoxesGiveTheDefinedOnes) {
  for (const int64_t count : {1, 63, 64, 65, 200}) {
    for (const double iou : {0.0, 0.2, 0.5}) {
      const auto boxes = this->Boxes(count);
      EXPECT_EQ(this->RunKernels(boxes, iou), this->Defined(boxes, iou)) << count << " boxes";
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::nms
