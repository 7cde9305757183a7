#include "model_zoo/training/gallery.h"

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace fovea::models::training {
namespace {

void WriteImage(const std::filesystem::path& file, const cv::Mat& rgb,
                const std::vector<int>& options) {
  cv::Mat bgr;
  cv::cvtColor(rgb, bgr, cv::COLOR_RGB2BGR);
  if (!cv::imwrite(file.string(), bgr, options)) {
    throw std::runtime_error("could not write " + file.string());
  }
}

}  // namespace

void WriteExamples(uint64_t seed, const std::filesystem::path& folder) {
  struct Example {
    Shape shape;
    cv::Size size;
    const char* type;
  };
  // Wide, square and upright: the server's resize has to cope with all of them.
  const Example examples[] = {
      {Shape::kStar, {320, 240}, ".jpg"},  {Shape::kHeart, {256, 256}, ".jpg"},
      {Shape::kArrow, {320, 240}, ".jpg"}, {Shape::kCrescent, {240, 320}, ".jpg"},
      {Shape::kRing, {256, 256}, ".jpg"},  {Shape::kCross, {256, 256}, ".png"},
  };
  std::filesystem::create_directories(folder);
  uint64_t round = 0;
  for (const Example& example : examples) {
    const uint64_t index = round++ * kNumShapes + static_cast<uint64_t>(example.shape);
    const Picture picture = DrawPicture(seed, Stream::kExamples, index, example.size);
    WriteImage(folder / (std::string(Name(example.shape)) + example.type), picture.rgb,
               {cv::IMWRITE_JPEG_QUALITY, 90});
  }
}

void WriteContactSheet(uint64_t seed, Stream stream, int rows, int side,
                       const std::filesystem::path& file) {
  constexpr int kGap = 2, kColumns = 2 * kNumShapes;
  cv::Mat sheet(rows * (side + kGap), kColumns * (side + kGap), CV_8UC3, cv::Scalar::all(0));
  for (int i = 0; i < rows * kColumns; ++i) {
    const cv::Rect place((i % kColumns) * (side + kGap), (i / kColumns) * (side + kGap), side,
                         side);
    DrawPicture(seed, stream, i, {side, side}).rgb.copyTo(sheet(place));
  }
  WriteImage(file, sheet, {});
}

}  // namespace fovea::models::training
