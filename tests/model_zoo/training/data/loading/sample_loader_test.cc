#include "model_zoo/training/data/loading/sample_loader.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/training/data/generated/scene.h"

namespace fovea::models::training {
namespace {

Scenes SomeScenes(uint64_t count) { return Scenes({.sizes = {{80, 64}}, .count = count}); }

SampleLoaderOptions InOrder() { return {.batch_size = 4, .size = {96, 96}, .training = false}; }

void ExpectEqual(const TrainingBatch& a, const TrainingBatch& b) {
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.contents, b.contents);
  EXPECT_TRUE(at::equal(a.pixels, b.pixels));
  EXPECT_TRUE(at::equal(a.class_map, b.class_map));
  ASSERT_EQ(a.images.size(), b.images.size());
  for (size_t i = 0; i < a.images.size(); ++i) {
    EXPECT_TRUE(at::equal(a.images[i].boxes, b.images[i].boxes));
    EXPECT_TRUE(at::equal(a.images[i].labels, b.images[i].labels));
    EXPECT_TRUE(at::equal(a.images[i].masks, b.images[i].masks));
  }
}

TEST(SampleLoaderTest, GivesEachSampleOnceAndInOrder) {
  const Scenes scenes = SomeScenes(10);
  SampleLoader loader(scenes, InOrder());
  EXPECT_EQ(loader.batches_per_epoch(), 3);
  std::vector<uint64_t> seen;
  for (int batch = 0; batch < 3; ++batch) {
    const TrainingBatch given = loader.Next();
    EXPECT_EQ(given.pixels.size(0), batch < 2 ? 4 : 2);
    seen.insert(seen.end(), given.indices.begin(), given.indices.end());
  }
  EXPECT_EQ(seen, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(loader.Next().pixels.size(0), 0);
}

TEST(SampleLoaderTest, AnEpochOfTrainingHoldsEachSampleOnce) {
  const Scenes scenes = SomeScenes(10);
  SampleLoader loader(scenes, {.batch_size = 5, .size = {32, 32}});
  std::vector<uint64_t> first, second;
  for (std::vector<uint64_t>* epoch : {&first, &second}) {
    for (int batch = 0; batch < 2; ++batch) {
      const TrainingBatch given = loader.Next();
      epoch->insert(epoch->end(), given.indices.begin(), given.indices.end());
    }
  }
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), second.begin()));
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(SampleLoaderTest, ThreadsDoNotMatter) {
  const Scenes scenes = SomeScenes(7);
  SampleLoaderOptions options{.batch_size = 3, .size = {64, 64}};
  options.augmentation.emplace();
  SampleLoader one(scenes, options);
  options.threads = 4;
  SampleLoader four(scenes, options);
  for (int batch = 0; batch < 6; ++batch) ExpectEqual(one.Next(), four.Next());
}

TEST(SampleLoaderTest, GoesOnWhereItWasStopped) {
  const Scenes scenes = SomeScenes(7);
  SampleLoaderOptions options{.batch_size = 3, .size = {64, 64}};
  options.augmentation.emplace();
  SampleLoader whole(scenes, options);
  for (int batch = 0; batch < 4; ++batch) whole.Next();
  options.first_batch = 4;
  SampleLoader rest(scenes, options);
  for (int batch = 0; batch < 3; ++batch) ExpectEqual(whole.Next(), rest.Next());
}

TEST(SampleLoaderTest, TensorsSayWhatTheSampleSays) {
  const Scenes scenes = SomeScenes(4);
  SampleLoader loader(scenes, InOrder());
  const TrainingBatch batch = loader.Next();
  ASSERT_EQ(batch.images.size(), 4u);
  for (int64_t i = 0; i < 4; ++i) {
    const PlacedSample placed =
        Placed(scenes.Get(static_cast<uint64_t>(i)), {96, 96}, Framing::kWhole);
    const ImageTruth& truth = batch.images[static_cast<size_t>(i)];
    EXPECT_EQ(batch.contents[static_cast<size_t>(i)], (ImageSize{77, 96}));
    const auto count = static_cast<int64_t>(placed.sample.objects.size());
    ASSERT_EQ(truth.boxes.sizes(), at::IntArrayRef({count, 4}));
    ASSERT_EQ(truth.masks.sizes(), at::IntArrayRef({count, 96, 96}));
    EXPECT_EQ(truth.crowds.sizes(), at::IntArrayRef({0, 4}));
    for (int64_t j = 0; j < count; ++j) {
      const Object& object = placed.sample.objects[static_cast<size_t>(j)];
      EXPECT_EQ(truth.labels[j].item<int64_t>(), object.class_index);
      EXPECT_EQ(truth.boxes[j][0].item<float>(), object.box.x);
      EXPECT_EQ(truth.boxes[j][3].item<float>(), object.box.y + object.box.height);
      // Where the mask is the class map says so.
      const at::Tensor levels = batch.class_map[i].masked_select(truth.masks[j].to(at::kBool));
      EXPECT_EQ(levels.numel(), cv::countNonZero(object.mask()));
      EXPECT_TRUE(levels.eq(object.class_index + 1).all().item<bool>());
    }
    EXPECT_TRUE(batch.class_map[i].slice(0, 77).eq(TrainingBatch::kIgnored).all().item<bool>());
    EXPECT_TRUE(batch.pixels[i].slice(0, 77).eq(0).all().item<bool>());
  }
}

// A small picture of so many objects, whose masks nobody may decode.
class Crowded final : public SampleSource {
 public:
  explicit Crowded(size_t objects) : objects_(objects) {}
  GroundTruth ground_truth() const override { return {.boxes = true, .masks = true}; }
  const std::vector<std::string>& labels() const override { return labels_; }
  const std::vector<std::string>& map_labels() const override { return map_labels_; }
  uint64_t size() const override { return 1; }
  std::string Name(uint64_t /*index*/) const override { return "crowded.png"; }
  Sample Get(uint64_t /*index*/) const override {
    Object object{.box = {0, 0, 4, 4}, .mask_area = {0, 0, 4, 4}};
    object.mask = []() -> cv::Mat { throw std::logic_error("it was decoded"); };
    return {.rgb = cv::Mat::zeros(4, 4, CV_8UC3), .objects = {objects_, object}};
  }

 private:
  const size_t objects_;
  const std::vector<std::string> labels_ = {"thing"}, map_labels_;
};

TEST(SampleLoaderTest, MasksThatWouldFillTheMemoryAreRefusedBeforeTheyAreMade) {
  const SampleLoaderOptions options{.batch_size = 1, .size = {1024, 1024}, .training = false};
  const Crowded most(256), too_many(257);  // a mebibyte each
  SampleLoader taken(most, options), refused(too_many, options);
  EXPECT_THROW(taken.Next(), std::logic_error);
  try {
    refused.Next();
    FAIL() << "it was not refused";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("crowded.png: the masks of its 257 objects"));
  }
}

TEST(SampleLoaderTest, MasksThatNobodyLearnsFromAreNotMade) {
  SampleLoaderOptions options = InOrder();
  options.masks = false;
  const Scenes scenes = SomeScenes(4);
  for (const ImageTruth& image : SampleLoader(scenes, options).Next().images) {
    EXPECT_GT(image.boxes.size(0), 0);
    EXPECT_EQ(image.masks.size(0), 0);
  }
  // Nor is a picture refused for them: this one's are decoded for its boxes, one by one.
  options.size = {1024, 1024};
  const Crowded crowded(257);
  EXPECT_THROW(SampleLoader(crowded, options).Next(), std::logic_error);
}

TEST(SampleLoaderTest, ScenesWithoutObjectsHaveEmptyTensors) {
  const Scenes scenes({.count = 2, .scene = {.min_objects = 0, .max_objects = 0}});
  SampleLoader loader(scenes, {.batch_size = 2, .training = false});
  const TrainingBatch batch = loader.Next();
  EXPECT_EQ(batch.images[1].boxes.sizes(), at::IntArrayRef({0, 4}));
  EXPECT_EQ(batch.images[1].labels.sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(batch.images[1].masks.sizes(), at::IntArrayRef({0, 128, 128}));
  EXPECT_TRUE(batch.class_map.eq(0).all().item<bool>());
}

TEST(SampleLoaderTest, PaddingIsZeroOnceNormalised) {
  const Scenes scenes = SomeScenes(1);
  SampleLoader loader(scenes, InOrder());
  const TrainingBatch batch = loader.Next();
  const Preprocessing preprocessing;
  const at::Tensor normalised = NormalisedSamples(batch, preprocessing);
  ASSERT_EQ(normalised.sizes(), at::IntArrayRef({1, 3, 96, 96}));
  EXPECT_TRUE(normalised.slice(2, 77).eq(0).all().item<bool>());
  const double level = batch.pixels[0][5][6][1].item<double>();
  // Two roundings to fp32 of numbers below 4.
  EXPECT_NEAR(normalised[0][1][5][6].item<double>(), (level / 255 - 0.456) / 0.224, 4e-6);
}

class Failing final : public SampleSource {
 public:
  // `heals`: only the first reading of a broken sample fails.
  explicit Failing(uint64_t size = 3, std::set<uint64_t> broken = {1}, bool heals = false)
      : size_(size), broken_(std::move(broken)), heals_(heals) {}
  GroundTruth ground_truth() const override { return {.class_index = true}; }
  const std::vector<std::string>& labels() const override { return labels_; }
  const std::vector<std::string>& map_labels() const override { return labels_; }
  uint64_t size() const override { return size_; }
  std::string Name(uint64_t) const override { return "a picture"; }
  Sample Get(uint64_t index) const override {
    if (broken_.contains(index) && !(heals_ && failed_.exchange(true))) {
      throw DataError("picture " + std::to_string(index) + " is broken");
    }
    return {.rgb = cv::Mat::zeros(4, 4, CV_8UC3), .class_index = 0};
  }

 private:
  const uint64_t size_;
  const std::set<uint64_t> broken_;
  const bool heals_;
  mutable std::atomic<bool> failed_ = false;
  const std::vector<std::string> labels_ = {"thing"};
};

TEST(SampleLoaderTest, ABrokenSampleIsAnErrorOfItsBatchAlone) {
  const Failing source;
  SampleLoader loader(source, {.batch_size = 1, .size = {4, 4}, .training = false, .threads = 2});
  EXPECT_EQ(loader.Next().indices, std::vector<uint64_t>{0});
  EXPECT_THROW(loader.Next(), DataError);
  const TrainingBatch last = loader.Next();
  EXPECT_EQ(last.indices, std::vector<uint64_t>{2});
  EXPECT_EQ(last.classes.item<int64_t>(), 0);
}

// Another picture takes the place of one that breaks during a training; a validation goes on
// without it.
TEST(SampleLoaderTest, SamplesThatBreakAreToldOnceAndLeftOut) {
  const Failing source(3, {1}, /*heals=*/true);  // it stays left out
  std::vector<std::string> told;
  const auto broken = std::make_shared<BrokenSamples>(
      source.size(), [&told](const std::string& line) { told.push_back(line); });
  SampleLoaderOptions options{.batch_size = 1, .size = {4, 4}, .broken = broken};
  SampleLoader training(source, options);
  std::multiset<uint64_t> seen;
  for (int step = 0; step < 6; ++step) seen.insert(training.Next().indices.at(0));
  EXPECT_EQ(seen, (std::multiset<uint64_t>{0, 0, 2, 2, 2, 2}));
  EXPECT_THAT(told, ::testing::ElementsAre("picture 1 is broken: it is left out from now on"));
  options.training = false;
  SampleLoader validation(source, options);
  EXPECT_EQ(validation.batches_per_epoch(), 3);
  EXPECT_EQ(validation.Next().indices, std::vector<uint64_t>{0});
  EXPECT_TRUE(validation.Next().indices.empty());
  EXPECT_EQ(validation.Next().indices, std::vector<uint64_t>{2});
}

TEST(SampleLoaderTest, WhereManySamplesBreakTheLoadingEnds) {
  std::set<uint64_t> many;
  for (uint64_t index = 0; index < 11; ++index) many.insert(index);
  const Failing some_of_many(100, many), most_of_few(3, {0, 1});
  for (const auto& [failing, words] :
       {std::pair(&some_of_many, "11 of 100 pictures can no longer be read, the last: picture"),
        std::pair(&most_of_few, "2 of 3 pictures can no longer be read")}) {
    const Failing& source = *failing;
    int told = 0;
    const auto broken =
        std::make_shared<BrokenSamples>(source.size(), [&told](const std::string&) { ++told; });
    SampleLoader loader(source, {.batch_size = 100, .size = {4, 4}, .broken = broken});
    try {
      loader.Next();
      FAIL() << "it has not ended";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
    }
    EXPECT_EQ(told, source.size() == 3 ? 1 : 10);
  }
}

}  // namespace
}  // namespace fovea::models::training
