#include "server/postprocess/segmentation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/imaging/decode.h"
#include "server/imaging/probe.h"
#include "server/postprocess/class_map.h"
#include "server/postprocess/class_run_lengths.h"

namespace fovea {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

std::vector<float> Noise(size_t size, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

// The definition, pixel by pixel, in double precision: the largest class, and how far the next is.
struct Pixel {
  int best = 0;
  double ahead = 0;
  double confidence = 0;
};
Pixel Reference(const LogitMap& map, const ImageTransform& seen, int64_t y, int64_t x) {
  const auto at = [](double input, int64_t size, int64_t places) {
    return std::clamp(input * static_cast<double>(places) / static_cast<double>(size) - 0.5, 0.0,
                      static_cast<double>(places - 1));
  };
  const double row = at(seen.InputY(static_cast<double>(y) + 0.5), seen.input_height, map.height);
  const double column = at(seen.InputX(static_cast<double>(x) + 0.5), seen.input_width, map.width);
  const auto top = static_cast<int64_t>(row), left = static_cast<int64_t>(column);
  const int64_t bottom = std::min(top + 1, map.height - 1);
  const int64_t right = std::min(left + 1, map.width - 1);
  const double down = row - static_cast<double>(top), across = column - static_cast<double>(left);
  std::vector<double> logits;
  for (int64_t c = 0; c < map.classes; ++c) {
    const auto get = [&](int64_t r, int64_t k) {
      return static_cast<double>(map.logits[(c * map.height + r) * map.width + k]);
    };
    logits.push_back((1 - down) * ((1 - across) * get(top, left) + across * get(top, right)) +
                     down * ((1 - across) * get(bottom, left) + across * get(bottom, right)));
  }
  Pixel pixel;
  for (size_t c = 0; c < logits.size(); ++c) {
    if (logits[c] > logits[pixel.best]) pixel.best = static_cast<int>(c);
  }
  double sum = 0, next = -INFINITY;
  for (size_t c = 0; c < logits.size(); ++c) {
    sum += std::exp(logits[c] - logits[pixel.best]);
    if (static_cast<int>(c) != pixel.best) next = std::max(next, logits[c]);
  }
  pixel.ahead = logits[pixel.best] - next;
  pixel.confidence = 1 / sum;
  return pixel;
}

// A picture of 90x61 that fills 45x30 of an input of 64x32.
ImageTransform Fitted() {
  return {.source_height = 90,
          .source_width = 61,
          .resized_height = 45,
          .resized_width = 30,
          .height = 45,
          .width = 30,
          .input_height = 64,
          .input_width = 32};
}

TEST(ClassMapTest, IsTheLargestInterpolatedLogit) {
  constexpr int64_t kClasses = 5;
  for (const ImageTransform& seen :
       {Fitted(), ImageTransform::Identity(33, 47), ImageTransform::Identity(1, 1)}) {
    const int64_t height = (seen.input_height + 3) / 4, width = (seen.input_width + 3) / 4;
    const std::vector<float> logits = Noise(kClasses * height * width, 1);
    const LogitMap map{logits, kClasses, height, width};
    const ClassMap quick = *MapClasses(map, seen, false), sure = *MapClasses(map, seen, true);
    EXPECT_TRUE(quick.confidence.empty());
    int ties = 0;
    for (int64_t y = 0; y < seen.source_height; ++y) {
      for (int64_t x = 0; x < seen.source_width; ++x) {
        const Pixel expected = Reference(map, seen, y, x);
        const int64_t i = y * seen.source_width + x;
        EXPECT_NEAR(sure.confidence[i], 255 * expected.confidence, 0.6);
        if (expected.ahead < 1e-5) {
          ++ties;
          continue;
        }
        ASSERT_EQ(quick.classes[i], expected.best) << y << ", " << x;
        ASSERT_EQ(sure.classes[i], expected.best);
      }
    }
    EXPECT_LE(ties, 5);
  }
}

TEST(ClassMapTest, TheFirstOfEqualsAndNothingElseWins) {
  const std::vector<float> logits(3 * 4 * 4, 7.0f);
  const ClassMap map = *MapClasses({logits, 3, 4, 4}, ImageTransform::Identity(16, 16), true);
  EXPECT_THAT(map.classes, Each(0));
  EXPECT_THAT(map.confidence, Each(85));
}

// The other direction, from cocoapi's rleFrString.
std::vector<uint16_t> Unpacked(const std::string& text, const ImageSize& size) {
  std::vector<int64_t> runs;
  for (size_t at = 0; at < text.size();) {
    int64_t number = 0;
    int shift = 0;
    bool more = true;
    while (more) {
      const int64_t group = text[at++] - '0';
      number |= (group & 0x1f) << shift;
      shift += 5;
      more = (group & 0x20) != 0;
      if (!more && (group & 0x10) != 0) number |= int64_t{-1} * (int64_t{1} << shift);
    }
    if (runs.size() > 2) number += runs[runs.size() - 2];
    runs.push_back(number);
  }
  std::vector<uint16_t> columns;
  for (size_t i = 0; i < runs.size(); ++i) columns.insert(columns.end(), runs[i], i % 2);
  std::vector<uint16_t> mask(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    mask[place % size.height * size.width + place / size.height] = columns[i];
  }
  return mask;
}

std::string RunLengthsOf(const std::vector<uint16_t>& map, const ImageSize& size, uint16_t value) {
  constexpr int64_t kClasses = 301;
  const auto all = RunLengthsOfClasses(map, size, kClasses);
  EXPECT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, SizeIs(kClasses));
  return (*all)[value];
}

TEST(RunLengthsTest, AreThoseOfCoco) {
  // By pycocotools 2.0.11: encode(asfortranarray([[0, 1, 1], [0, 1, 0]])) and the like.
  EXPECT_EQ(RunLengthsOf({0, 1, 1, 0, 1, 0}, {2, 3}, 1), "231");
  EXPECT_EQ(RunLengthsOf({1, 1, 1, 1}, {2, 2}, 1), "04");
  EXPECT_EQ(RunLengthsOf({1, 1, 1, 1}, {2, 2}, 0), "") << "none of its pixels";
  // A block with a hole: runs of several groups, longer and shorter than the one before the last.
  std::vector<uint16_t> block(70 * 9);
  for (int y = 5; y < 65; ++y) std::fill_n(block.begin() + 9 * y + 1, 7, 1);
  block[9 * 30 + 3] = 0;
  EXPECT_EQ(RunLengthsOf(block, {70, 9}, 1), "[2l1:00mNG99j0000000Q2");
}

TEST(RunLengthsTest, ComeBackAsTheyWere) {
  std::mt19937 random(1);
  for (const ImageSize size : {ImageSize{1, 1}, ImageSize{1, 50}, ImageSize{37, 53}}) {
    for (const int each : {1, 2, 40, 10'000}) {
      std::vector<uint16_t> map(size.height * size.width);
      for (uint16_t& value : map) value = random() % each == 0 ? 300 : 7;
      std::vector<uint16_t> expected;
      for (const uint16_t value : map) expected.push_back(value == 300);
      if (std::ranges::count(expected, 1) == 0) continue;
      EXPECT_EQ(Unpacked(RunLengthsOf(map, size, 300), size), expected);
    }
  }
}

constexpr int64_t kClasses = 3;

std::shared_ptr<ModelView> Model(int64_t classes = kClasses) {
  auto model = std::make_shared<ModelView>();
  model->task = VisionTask::kSegmentation;
  model->num_classes = classes;
  model->longest_label = 5;
  model->labels =
      std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"sky", "grass"});
  model->output_bytes = classes * 4 * 4 * int64_t{sizeof(float)};
  model->outputs = {ClassMapTensor(classes), {"logits", DataType::kFp32, {-1, classes, -1, -1}}};
  return model;
}

// The left half is of one class, the right half of another.
std::vector<OutputTensor> Halves(int64_t classes, int64_t left, int64_t right) {
  std::vector<float> logits(classes * 4 * 4, 0);
  for (int64_t y = 0; y < 4; ++y) {
    for (int64_t x = 0; x < 4; ++x) logits[((x < 2 ? left : right) * 4 + y) * 4 + x] = 10;
  }
  std::string data(logits.size() * sizeof(float), '\0');
  std::memcpy(data.data(), logits.data(), data.size());
  return {{"logits", DataType::kFp32, {1, classes, 4, 4}, data}};
}

const std::vector<ImageTransform> kSeen = {ImageTransform::Identity(16, 16)};

SegmentResults Segment(const SegmentOptions& options) {
  const auto postprocessor = Postprocessor::Create(Model());
  EXPECT_TRUE(postprocessor->Check(options).ok()) << postprocessor->Check(options);
  auto results = postprocessor->Process(options, Halves(kClasses, 2, 1), kSeen);
  EXPECT_TRUE(results.ok()) << results.status();
  return std::get<SegmentResults>(*std::move(results));
}

TEST(SegmentationTest, TellsTheAreasOfItsClasses) {
  const SegmentResults results = Segment({});
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].image, (ImageSize{16, 16}));
  ASSERT_THAT(results[0].classes, SizeIs(2)) << "none of what is not there";
  EXPECT_EQ(results[0].classes[0].label, "grass");
  EXPECT_EQ(results[0].classes[1].label, "") << "the model has two labels";
  EXPECT_EQ(results[0].classes[0].pixels + results[0].classes[1].pixels, 16 * 16);
  EXPECT_EQ(results[0].classes[0].pixels, 16 * 8);
}

TEST(SegmentationTest, TheMapIsAPictureOfClassNumbers) {
  const SegmentResults results = Segment({.confidence = true});
  const auto grey = [](const std::string& png) {
    const Bytes bytes = std::as_bytes(std::span(png));
    const auto info = ProbeImage(bytes, {});
    EXPECT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->components, 1);
    EXPECT_EQ(info->bit_depth, 8);
    auto image = DecodeImage(bytes, *info);
    EXPECT_TRUE(image.ok()) << image.status();
    std::vector<int> levels;
    for (size_t i = 0; i < image->size(); i += 3) levels.push_back(image->pixels[i]);
    return levels;
  };
  const std::vector<int> map = grey(results[0].class_map_png);
  ASSERT_THAT(map, SizeIs(16 * 16));
  EXPECT_EQ(map[0], 2);
  EXPECT_EQ(map[15], 1);
  const std::vector<int> sure = grey(results[0].confidence_png);
  EXPECT_EQ(sure[0], 255);
  EXPECT_LT(sure[7], 255) << "at the border";
  EXPECT_TRUE(Segment({})[0].confidence_png.empty());
}

TEST(SegmentationTest, RunLengthsInsteadOfAPicture) {
  const SegmentResults results = Segment({.format = MapFormat::kRunLengths});
  EXPECT_TRUE(results[0].class_map_png.empty());
  ASSERT_THAT(results[0].classes, SizeIs(2));
  for (const ClassArea& area : results[0].classes) {
    std::vector<uint16_t> half;  // by rows; the left one is of class 2, the other of class 1
    for (int i = 0; i < 16 * 16; ++i) half.push_back((i % 16 < 8) == (area.class_index == 2));
    EXPECT_EQ(Unpacked(area.run_lengths, {16, 16}), half) << area.class_index;
  }
}

TEST(SegmentationTest, TensorsHaveTheClassMapWhereItIsWanted) {
  for (const int64_t classes : {kClasses, int64_t{300}}) {
    const auto postprocessor = Postprocessor::Create(Model(classes));
    const auto all =
        postprocessor->Process(WantedTensors(), Halves(classes, 2, classes - 1), kSeen);
    ASSERT_TRUE(all.ok()) << all.status();
    const auto& outputs = std::get<TensorResults>(*all);
    ASSERT_THAT(outputs, SizeIs(2));
    EXPECT_EQ(outputs[0].name, "class_map");
    EXPECT_THAT(outputs[0].shape, ElementsAre(1, 16, 16));
    EXPECT_EQ(outputs[0].type, classes > 256 ? DataType::kUint16 : DataType::kUint8);
    EXPECT_EQ(outputs[0].data.size(), 256 * ElementSize(outputs[0].type));
    EXPECT_EQ(outputs[0].data[0], 2);
    uint16_t last = 0;
    std::memcpy(&last, outputs[0].data.data() + 15 * ElementSize(outputs[0].type),
                ElementSize(outputs[0].type));
    EXPECT_EQ(last, classes - 1);
    const WantedTensors logits{{{"logits", 0}}};
    const auto one = postprocessor->Process(logits, Halves(classes, 2, 1), kSeen);
    ASSERT_TRUE(one.ok());
    EXPECT_EQ(std::get<TensorResults>(*one)[0].name, "logits");
    EXPECT_LT(postprocessor->ResultBytes(logits, {.pixels = 1'000'000}),
              postprocessor->ResultBytes(WantedTensors(), {.pixels = 1'000'000}));
  }
}

// Files of several sizes that the model sees at one.
TEST(SegmentationTest, Row58OneTensorDoesNotHoldClassMapsOfDifferentSizes) {
  const auto postprocessor = Postprocessor::Create(Model());
  std::vector<OutputTensor> two = Halves(kClasses, 2, 1);
  two[0].shape[0] = 2;
  two[0].data += std::string(two[0].data);
  ImageTransform other = kSeen[0];
  other.source_height *= 2;
  const std::vector<ImageTransform> images = {kSeen[0], other};
  const auto results = postprocessor->Process(WantedTensors(), two, images);
  EXPECT_EQ(ReasonOf(results.status()), "request.images_differ");
}

// Somebody waits until he has been asked `pieces` times; then it ends at once.
TEST(SegmentationTest, Row62MakesNothingThatNobodyWaitsFor) {
  const auto postprocessor = Postprocessor::Create(Model());
  const std::vector<RequestOptions> all = {SegmentOptions{}, SegmentOptions{.confidence = true},
                                           SegmentOptions{.format = MapFormat::kRunLengths},
                                           WantedTensors()};
  for (const RequestOptions& options : all) {
    int most = 0;  // times that it is asked
    const auto count = [&] {
      ++most;
      return absl::OkStatus();
    };
    ASSERT_TRUE(postprocessor->Process(options, Halves(kClasses, 2, 1), kSeen, count).ok());
    EXPECT_GE(most, 16) << "for each row of the map";
    for (int pieces = 0; pieces < most; ++pieces) {
      int asked = 0;
      const auto gone = [&] {
        return asked++ < pieces ? absl::OkStatus()
                                : DeadlineExceeded("request.deadline_passed", "too late");
      };
      const auto results = postprocessor->Process(options, Halves(kClasses, 2, 1), kSeen, gone);
      EXPECT_EQ(ReasonOf(results.status()), "request.deadline_passed");
      EXPECT_EQ(asked, pieces + 1);
    }
  }
}

// A row of many classes is not one piece of work.
TEST(ClassMapTest, AsksInsideOfALongRow) {
  constexpr int64_t kMany = 1 << 16, kWidth = 100;
  const std::vector<float> logits(kMany, 0.0f);
  int asked = 0;
  const auto count = [&] {
    ++asked;
    return absl::OkStatus();
  };
  const ImageTransform row = ImageTransform::Identity(1, kWidth);
  ASSERT_TRUE(MapClasses({logits, kMany, 1, 1}, row, /*confidence=*/false, count).ok());
  EXPECT_EQ(asked, 1) << "no pixel is computed";
  asked = 0;
  ASSERT_TRUE(MapClasses({logits, kMany, 1, 1}, row, /*confidence=*/true, count).ok());
  EXPECT_GE(asked, kWidth * kMany >> 20);
  const auto gone = [&] { return --asked == 0 ? Cancelled("test", "gone") : absl::OkStatus(); };
  asked = 3;
  EXPECT_EQ(ReasonOf(MapClasses({logits, kMany, 1, 1}, row, /*confidence=*/true, gone).status()),
            "test");
  EXPECT_EQ(asked, 0) << "and the rest is not made";
}

TEST(SegmentationTest, TellsHowMuchItComputesForAPixel) {
  const auto postprocessor = Postprocessor::Create(Model());
  EXPECT_EQ(postprocessor->NumbersPerPixel(SegmentOptions()), 1);
  EXPECT_EQ(postprocessor->NumbersPerPixel(WantedTensors()), 1);
  EXPECT_EQ(postprocessor->NumbersPerPixel(SegmentOptions{.confidence = true}), kClasses);
}

// The more classes, the further apart the pixels of one are.
TEST(SegmentationTest, CountsWhatRunLengthsOfNoiseTake) {
  const ImageSize size{120, 160};
  const int64_t pixels = size.height * size.width;
  std::mt19937 random(3);
  for (const int64_t classes : {2, 20, 200, 15'000}) {
    std::vector<uint16_t> map(pixels);
    for (uint16_t& value : map) value = static_cast<uint16_t>(random() % classes);
    const auto texts = RunLengthsOfClasses(map, size, classes);
    ASSERT_TRUE(texts.ok()) << texts.status();
    int64_t characters = 0;
    for (const std::string& text : *texts) characters += std::ssize(text);
    auto model = Model(classes);
    model->longest_label = 0;
    const SegmentOptions runs{.format = MapFormat::kRunLengths};
    const int64_t counted =
        Postprocessor::Create(model)->ResultBytes(runs, {.pixels = pixels, .side = size.width});
    // As an element, in a message and encoded; and twice as long while it grows.
    const int64_t others = classes * 192 + 2 * pixels;
    EXPECT_GE(counted - others, 5 * characters) << classes;
  }
}

// docs/faults.md, row 56.
TEST(SegmentationTest, NeedsASegmenter) {
  auto model = Model();
  model->outputs = {{"logits", DataType::kFp32, {-1, kClasses}}};
  const absl::Status status = Postprocessor::Create(model)->Check(SegmentOptions());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "model.no_segmenter");
}

TEST(SegmentationTest, CountsWhatItHolds) {
  const auto postprocessor = Postprocessor::Create(Model());
  const SegmentResults results = Segment({.format = MapFormat::kPng, .confidence = true});
  const int64_t bytes =
      postprocessor->ResultBytes(SegmentOptions{.confidence = true}, {.pixels = 256});
  EXPECT_GE(bytes, std::ssize(results[0].class_map_png) + std::ssize(results[0].confidence_png) +
                       256 * 3 + Model()->output_bytes);
  EXPECT_GT(postprocessor->ResultBytes(SegmentOptions(), {.pixels = 1'000'000}),
            postprocessor->ResultBytes(SegmentOptions(), {.pixels = 1'000}) + 1'000'000);
}

}  // namespace
}  // namespace fovea
