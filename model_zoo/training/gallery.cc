#include "model_zoo/training/gallery.h"

#include <turbojpeg.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model_zoo/training/data/generated/scene.h"
#include "model_zoo/training/data/picture_files/picture_file.h"

namespace fovea::models::training {
namespace {

constexpr int kJpegQuality = 90;
// Of the stream, in the sizes that scenes have in turn: with shapes of several kinds, small and
// large.
constexpr std::array<uint64_t, 3> kExampleScenes = {12, 15, 19};
constexpr int kExampleSceneSide = 384;

std::runtime_error CouldNotWrite(const std::filesystem::path& file) {
  return std::runtime_error("could not write " + file.string());
}

void WriteJpeg(const std::filesystem::path& file, const cv::Mat& rgb) {
  const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitCompress(), tjDestroy);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  const int failed =
      tjCompress2(handle.get(), rgb.data, rgb.cols, static_cast<int>(rgb.step), rgb.rows, TJPF_RGB,
                  &data, &size, TJSAMP_420, kJpegQuality, /*flags=*/0);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> encoded(data, tjFree);
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size)).flush();
  if (failed != 0 || !stream) throw CouldNotWrite(file);
}

// By the file's name.
void WriteImage(const std::filesystem::path& file, const cv::Mat& rgb) {
  if (file.extension() == ".png") return WritePng(file, rgb);
  if (file.extension() == ".jpg") return WriteJpeg(file, rgb);
  throw std::runtime_error(file.string() + " is called neither .png nor .jpg");
}

}  // namespace

void WriteExamples(uint64_t seed, const std::filesystem::path& folder) {
  struct Example {
    Shape shape;
    cv::Size size;
    const char* type;
  };
  // Landscape, square and portrait: the server's resize has to cope with all of them.
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
    WriteImage(folder / (std::string(Name(example.shape)) + example.type), picture.rgb);
  }
  const std::filesystem::path scenes = folder / "scenes";
  std::filesystem::create_directories(scenes);
  const std::vector<cv::Size> sizes = SceneSizes(kExampleSceneSide);
  for (size_t i = 0; i < kExampleScenes.size(); ++i) {
    const Sample scene =
        DrawScene(seed, Stream::kExamples, kExampleScenes[i], sizes[i % sizes.size()]);
    WriteImage(scenes / ("scene_" + std::to_string(i + 1) + ".jpg"), scene.rgb);
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
  WriteImage(file, sheet);
}

void WriteShapes(uint64_t seed, int64_t count, int side, const std::filesystem::path& folder) {
  for (int64_t i = 0; i < count; ++i) {
    const Picture picture =
        DrawPicture(seed, Stream::kTest, static_cast<uint64_t>(i), {side, side});
    const std::filesystem::path of_shape = folder / Name(picture.shape);
    std::filesystem::create_directories(of_shape);
    char name[32];
    std::snprintf(name, sizeof(name), "%06lld.png", static_cast<long long>(i));
    WriteImage(of_shape / name, picture.rgb);
  }
}

}  // namespace fovea::models::training
