// What a picture of many objects takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <opencv2/core.hpp>
#include <string>

#include "model_zoo/training/data/coco/coco_source.h"
#include "model_zoo/training/data/loading/augmentation.h"
#include "model_zoo/training/data/picture_files/picture_file.h"
#include "tests/model_zoo/folder/temp_repository.h"

namespace fovea::models::training {
namespace {

// Counts the bytes of OpenCV's matrices, which it has the usual allocator make.
class CountingAllocator final : public cv::MatAllocator {
 public:
  cv::UMatData* allocate(int dims, const int* sizes, int type, void* data, size_t* step,
                         cv::AccessFlag flags, cv::UMatUsageFlags usage) const override {
    cv::UMatData* made = usual_->allocate(dims, sizes, type, data, step, flags, usage);
    made->prevAllocator = made->currAllocator = this;
    const int64_t held = held_ += static_cast<int64_t>(made->size);
    for (int64_t peak = peak_; held > peak && !peak_.compare_exchange_weak(peak, held);) {
    }
    return made;
  }
  bool allocate(cv::UMatData* data, cv::AccessFlag flags, cv::UMatUsageFlags usage) const override {
    return usual_->allocate(data, flags, usage);
  }
  void deallocate(cv::UMatData* data) const override {
    held_ -= static_cast<int64_t>(data->size);
    data->prevAllocator = data->currAllocator = usual_;
    usual_->deallocate(data);
  }

  int64_t held() const { return held_; }
  // Since it was asked last.
  int64_t TakePeak() { return peak_.exchange(held_); }

 private:
  cv::MatAllocator* const usual_ = cv::Mat::getStdAllocator();
  mutable std::atomic<int64_t> held_ = 0, peak_ = 0;
};

class MaskMemoryTest : public ::testing::Test {
 protected:
  MaskMemoryTest() { cv::Mat::setDefaultAllocator(&Bytes()); }
  ~MaskMemoryTest() override { cv::Mat::setDefaultAllocator(cv::Mat::getStdAllocator()); }

  // Outlives every matrix that it made.
  static CountingAllocator& Bytes() {
    static CountingAllocator bytes;
    return bytes;
  }
};

TEST_F(MaskMemoryTest, IsThatOfOneMaskHoweverManyObjectsThereAre) {
  constexpr int kObjects = 24, kWidth = 5000, kHeight = 4000;
  constexpr int64_t kMask = int64_t{kWidth} * kHeight, kPicture = 3 * kMask;
  constexpr int64_t kSmall = 1 << 20;
  const TempRepository folder;
  WritePng(folder / "a.png", cv::Mat(kHeight, kWidth, CV_8UC3, cv::Scalar(1, 2, 3)));
  // Each is nearly the whole picture: as a polygon, or as run lengths.
  std::string annotations;
  for (int i = 0; i < kObjects; ++i) {
    annotations += i == 0 ? "" : ",";
    annotations += R"({"image_id": 1, "category_id": 1, "bbox": [0, 0, 5000, 4000], )";
    annotations += i % 2 == 0
                       ? R"("segmentation": [[0, 0, 5000, 0, 5000, 4000, 0, 4000]]})"
                       : R"("segmentation": {"size": [4000, 5000], "counts": [7, 19999993]}})";
  }
  folder.Write("annotations.json",
               R"({"images": [{"id": 1, "file_name": "a.png", "width": 5000, "height": 4000}],
                   "categories": [{"id": 1, "name": "x"}], "annotations": [)" +
                   annotations + "]}");
  const CocoSource source(folder / "annotations.json", {folder.root()});
  ASSERT_TRUE(source.ground_truth().masks);

  const int64_t before = Bytes().held();
  Bytes().TakePeak();
  const Sample sample = source.Get(0);
  ASSERT_EQ(sample.objects.size(), size_t{kObjects});
  EXPECT_EQ(Bytes().held() - before, kPicture) << "the picture alone is kept";
  // While one is decoded there is another matrix of its size.
  EXPECT_LE(Bytes().TakePeak() - before, kPicture + 2 * kMask + kSmall);

  const PlacedSample placed = Placed(sample, {64, 64}, Framing::kWhole);
  ASSERT_EQ(placed.sample.objects.size(), size_t{kObjects});
  EXPECT_EQ(placed.sample.objects[0].mask_area, cv::Rect(0, 0, 64, 51));
  EXPECT_EQ(cv::countNonZero(placed.sample.objects[0].mask()), 64 * 51);
  EXPECT_LE(Bytes().TakePeak() - before, kPicture + 2 * kMask + kSmall);
  EXPECT_LE(Bytes().held() - before, kPicture + kSmall);
}

}  // namespace
}  // namespace fovea::models::training
