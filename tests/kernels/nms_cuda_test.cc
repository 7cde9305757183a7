// The CUDA kernels of non-maximum suppression, run on the host thread block by thread block.
#include "tests/kernels/cuda_on_host/runtime.h"
// Above: before the kernel's header, which it makes host code of.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "kernels/vision/nms/cuda_masks.h"

namespace fovea::kernels::nms {
namespace {

using cuda_on_host::Block;

template <class T>
class NmsCudaTest : public testing::Test {
 protected:
  // Random boxes, some of them equal, some without area.
  std::vector<T> Boxes(int64_t count) {
    std::vector<T> boxes(count * 4);
    for (int64_t i = 0; i < count; ++i) {
      for (int c = 0; c < 2; ++c) {
        const T corner = static_cast<T>(generator_() % 40);
        boxes[i * 4 + c] = corner;
        boxes[i * 4 + c + 2] = corner + static_cast<T>(generator_() % 8);
      }
    }
    return boxes;
  }

  std::vector<bool> RunKernels(const std::vector<T>& boxes, double iou) {
    const int64_t count = boxes.size() / 4;
    CudaJob<T> job{};
    job.boxes = boxes.data();
    job.count = count;
    job.words = (count + kBits - 1) / kBits;
    job.iou = iou;
    // What is not written must not be read.
    std::vector<uint64_t> masks(count * job.words, ~uint64_t{0}), removed(job.words);
    const auto keep = std::make_unique<bool[]>(count);
    job.masks = masks.data();
    job.removed = removed.data();
    job.keep = keep.get();
    std::vector<T> boxes_shared(kBits * 4);
    for (unsigned block = 0; block < job.words * job.words; ++block) {
      Block::Run(block, kBits, [&] { CompareBlocks(job, boxes_shared.data()); });
    }
    std::vector<uint64_t> reduce_shared(kBits + 1);
    Block::Run(0, 128, [&] { Reduce(job, reduce_shared.data()); });
    return std::vector<bool>(keep.get(), keep.get() + count);
  }

  static std::vector<bool> Defined(const std::vector<T>& boxes, double iou) {
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
