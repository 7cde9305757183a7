#include "model_zoo/folder/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kHead[] = "spec_version: 1\nbackbone: \"deit_tiny_patch16_224\"\n";

absl::StatusOr<ModelSpec> Parse(const std::string& more, std::string_view config = {}) {
  return ParseModelSpec(kHead + more, "cats", config);
}

std::string Message(const absl::StatusOr<ModelSpec>& spec) {
  return std::string(spec.status().message());
}

TEST(ModelSpecTest, AbsentFieldsHaveTheirDefaults) {
  const absl::StatusOr<ModelSpec> spec = Parse("");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->description.name, "cats");
  EXPECT_EQ(spec->description.backbone, "deit_tiny_patch16_224");
  EXPECT_THAT(spec->description.attention, IsEmpty());
  EXPECT_EQ(spec->description.task, models::Task::kClassification);
  EXPECT_EQ(spec->description.precision, models::Precision::kFp32);
  EXPECT_EQ(spec->description.num_classes, 0);
  EXPECT_FALSE(spec->description.random_weights_seed.has_value());
  EXPECT_EQ(spec->weights_of, "");
  EXPECT_EQ(spec->advertised_input, AdvertisedInput::kPixelValues);
  EXPECT_EQ(spec->max_batch_size, 16);
  EXPECT_EQ(spec->batching.default_queue_policy.max_queue_size, 256);
  EXPECT_EQ(spec->batching.max_queue_delay_us, 0);
  EXPECT_EQ(spec->batching.default_priority_level, 0);
  EXPECT_EQ(spec->instances.count, 0) << "as suits the requests that wait";
  EXPECT_FALSE(spec->untrained);
  EXPECT_THAT(spec->version_policy.Select(std::vector<int64_t>{1, 2, 7}), ElementsAre(7));
}

TEST(ModelSpecTest, EveryPrecisionArrives) {
  for (const models::Precision precision : models::kPrecisions) {
    const std::string text = std::string("precision: ") + models::NameOf(precision);
    const absl::StatusOr<ModelSpec> spec = Parse(text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->description.precision, precision) << text;
  }
}

TEST(ModelSpecTest, EveryFieldArrives) {
  const absl::StatusOr<ModelSpec> spec = Parse(R"pb(
    name: "cats"
    attention: "conv"
    attention: "self/knn:k=0.5"
    num_classes: 10
    precision: BF16
    image_height: 64
    image_width: 96
    further_image_sizes { height: 128 width: 96 }
    further_image_sizes { height: 32 width: 48 }
    vit { depth: 3 width: 96 heads: 4 patch_size: 8 mlp_width: 250 }
    preprocessing {
      resize_mode: SHORTEST_EDGE
      interpolation: BILINEAR
      crop_fraction: 0.875
      mean: [ 0.5, 0.25, 0 ]
      std: [ 0.5, 0.25, 1 ]
      shorter_side: 40
      longer_side: 60
      fast_decode: true
      crop_offset: FLOOR
    }
    classifier_activation: SIGMOID
    window_padding: ROLL_THEN_PAD
    max_batch_size: 8
    dynamic_batching {
      preferred_batch_size: [ 8, 4, 4 ]
      max_queue_delay_microseconds: 1500
      priority_levels: 4
      default_queue_policy { default_timeout_microseconds: 7000 max_queue_size: 9 }
    }
    instance_group {
      count: 2
      threads: 3
      rate_limiter { priority: 5 }
    }
    weights_of: "dogs"
    advertised_input: IMAGE_RGB
    allow_non_finite: true
    untrained: true
    version_policy { specific { versions: [ 5, 2 ] } })pb");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->description.attention, ElementsAre("conv", "self/knn:k=0.5"));
  EXPECT_EQ(spec->description.num_classes, 10);
  EXPECT_EQ(spec->description.precision, models::Precision::kBf16);
  EXPECT_EQ(spec->description.image_height, 64);
  EXPECT_EQ(spec->description.image_width, 96);
  EXPECT_THAT(spec->description.further_sizes,
              ElementsAre(models::ImageSize{128, 96}, models::ImageSize{32, 48}));
  EXPECT_EQ(spec->description.vit,
            (models::VitSizes{.depth = 3, .width = 96, .heads = 4, .patch = 8, .mlp_width = 250}));
  EXPECT_EQ(spec->max_batch_size, 8);
  EXPECT_THAT(spec->batching.preferred_batch_sizes, ElementsAre(4, 8));
  EXPECT_EQ(spec->batching.max_queue_delay_us, 1500);
  EXPECT_EQ(spec->batching.priority_levels, 4);
  EXPECT_EQ(spec->batching.default_priority_level, 2);
  EXPECT_EQ(spec->batching.default_queue_policy.default_timeout_us, 7000);
  EXPECT_EQ(spec->batching.default_queue_policy.max_queue_size, 9);
  EXPECT_EQ(spec->instances.count, 2);
  EXPECT_EQ(spec->instances.threads, 3);
  EXPECT_EQ(spec->instances.rate_limiter_priority, 5);
  EXPECT_EQ(spec->weights_of, "dogs");
  EXPECT_EQ(spec->advertised_input, AdvertisedInput::kImageRgb);
  EXPECT_EQ(spec->description.classifier_activation, models::ClassifierActivation::kSigmoid);
  EXPECT_EQ(spec->description.window_padding, models::WindowPadding::kRollThenPad);
  EXPECT_TRUE(spec->allow_non_finite);
  EXPECT_TRUE(spec->untrained);
  EXPECT_THAT(spec->version_policy.Select(std::vector<int64_t>{1, 2, 3}), ElementsAre(2));

  const models::Preprocessing changed = spec->preprocessing.AppliedTo({});
  EXPECT_EQ(changed.interpolation, models::Interpolation::kBilinear);
  EXPECT_EQ(changed.crop_fraction, 0.875);
  EXPECT_EQ(changed.shorter_side, 40);
  EXPECT_EQ(changed.longer_side, 60);
  EXPECT_TRUE(changed.fast_decode);
  EXPECT_EQ(changed.crop_offset, models::CropOffset::kFloor);
  EXPECT_THAT(changed.mean, ElementsAre(0.5f, 0.25f, 0.0f));
  EXPECT_THAT(changed.std, ElementsAre(0.5f, 0.25f, 1.0f));
}

TEST(ModelSpecTest, AnAbsentPreprocessingFieldKeepsThePublishedValue) {
  const absl::StatusOr<ModelSpec> spec = Parse("preprocessing { crop_fraction: 1 }");
  ASSERT_TRUE(spec.ok()) << spec.status();
  models::Preprocessing published;
  published.interpolation = models::Interpolation::kBilinear;
  published.mean = {0.1f, 0.2f, 0.3f};
  models::Preprocessing expected = published;
  expected.crop_fraction = 1;
  EXPECT_EQ(spec->preprocessing.AppliedTo(published), expected);
}

TEST(ModelSpecTest, ASquashCropsOnlyWhereTheSpecSaysSo) {
  for (const auto& [text, fraction] :
       {std::pair("preprocessing { resize_mode: SQUASH }", 1.0),
        std::pair("preprocessing { resize_mode: SQUASH crop_fraction: 0.875 }", 0.875)}) {
    const absl::StatusOr<ModelSpec> spec = Parse(text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    models::Preprocessing published;
    published.crop_fraction = 0.9;
    const models::Preprocessing applied = spec->preprocessing.AppliedTo(published);
    EXPECT_EQ(applied.resize_mode, models::ResizeMode::kSquash);
    EXPECT_EQ(applied.crop_fraction, fraction);
  }
}

TEST(ModelSpecTest, SizesOfWholePicturesFollowFromTheirSides) {
  const auto sizes = [](const std::string& text) {
    const absl::StatusOr<ModelSpec> spec = Parse(text);
    EXPECT_TRUE(spec.ok()) << spec.status();
    const models::ModelDescription& description = spec->description;
    std::vector<models::ImageSize> all = {{description.image_height, description.image_width}};
    all.insert(all.end(), description.further_sizes.begin(), description.further_sizes.end());
    return all;
  };
  using Size = models::ImageSize;
  // 4:3 is 800x1066.7, 3:2 800x1200, 2:1 666.5x1333, 3:1 444.3x1333, 6:1 222.2x1333.
  EXPECT_THAT(sizes("task: DETECTION"),
              ElementsAre(Size{800, 1344}, Size{1344, 800}, Size{800, 1216}, Size{1216, 800},
                          Size{672, 1344}, Size{1344, 672}, Size{800, 1088}, Size{1088, 800},
                          Size{800, 800}, Size{448, 1344}, Size{1344, 448}, Size{224, 1344},
                          Size{1344, 224}));
  EXPECT_THAT(sizes("task: SEGMENTATION preprocessing { shorter_side: 60 longer_side: 70 }"),
              ElementsAre(Size{64, 96}, Size{96, 64}, Size{64, 64}, Size{32, 96}, Size{96, 32}));
  EXPECT_THAT(sizes("preprocessing { resize_mode: FIT shorter_side: 64 longer_side: 64 }"),
              ElementsAre(Size{64, 64}, Size{32, 64}, Size{64, 32}));
  // Where sizes are named, or pictures are cut, they do not.
  EXPECT_THAT(sizes("task: DETECTION image_height: 64 image_width: 64"), ElementsAre(Size{64, 64}));
  EXPECT_THAT(sizes("task: DETECTION preprocessing { resize_mode: SQUASH }"), ElementsAre(Size{}));
  EXPECT_THAT(sizes("preprocessing { resize_mode: FIT }"), ElementsAre(Size{}));
  EXPECT_EQ(Parse("task: DETECTION")->max_batch_size, 1);
  EXPECT_EQ(Parse("task: DETECTION max_batch_size: 3")->max_batch_size, 3);
  EXPECT_EQ(Parse("task: DETECTION image_height: 64 image_width: 64")->max_batch_size, 16);
}

TEST(ModelSpecTest, RandomWeightsKeepTheirSeed) {
  const absl::StatusOr<ModelSpec> spec = Parse("random_weights { seed: 18446744073709551615 }");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->description.random_weights_seed, 18446744073709551615u);
}

// docs/faults.md, row 30.
struct BadSpec {
  const char* name;
  std::string text;   // follows the two lines of kHead
  const char* where;  // how the message begins
  const char* what;   // and what it says
};

TEST(ModelSpecTest, ReadsTheQueuePolicyOfEachLevel) {
  const auto spec = Parse(R"pb(
    dynamic_batching {
      priority_levels: 3
      default_priority_level: 3
      default_queue_policy { max_queue_size: 9 allow_timeout_override: false }
      priority_queue_policy {
        key: 1
        value { timeout_action: DELAY default_timeout_microseconds: 7000 }
      }
    })pb");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->batching.default_queue_policy,
            (QueuePolicy{.allow_timeout_override = false, .max_queue_size = 9}));
  ASSERT_EQ(spec->batching.priority_queue_policy.size(), 1u);
  EXPECT_EQ(spec->batching.priority_queue_policy.at(1),
            (QueuePolicy{.timeout_action = TimeoutAction::kDelay, .default_timeout_us = 7000}))
      << "of the default policy an entry takes nothing over";
}

class BadSpecTest : public ::testing::TestWithParam<BadSpec> {};

TEST_P(BadSpecTest, IsRefusedWithItsLine) {
  const absl::StatusOr<ModelSpec> spec = Parse(GetParam().text);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(spec.status()), "model.bad_spec");
  EXPECT_THAT(Message(spec), StartsWith(GetParam().where));
  EXPECT_THAT(Message(spec), HasSubstr(GetParam().what));
}

INSTANTIATE_TEST_SUITE_P(
    Row30, BadSpecTest,
    ::testing::Values(
        BadSpec{"UnknownField", "\nnum_clases: 3",
                "model.textproto:4: ", "unknown field \"num_clases\""},
        BadSpec{"UnknownNestedField", "instance_group {\n  cuont: 3\n}",
                "model.textproto:4: ", "unknown field \"cuont\""},
        BadSpec{"UnknownEnumValue", "precision: FP8", "model.textproto:3: ", "FP8"},
        BadSpec{"SyntaxError", "max_batch_size: {", "model.textproto:3: ", ""},
        BadSpec{"FieldTwice", "num_classes: 3\nnum_classes: 3",
                "model.textproto:4: ", "num_classes"},
        BadSpec{"BothWeightSources", "weights_of: \"dogs\"\nrandom_weights {}",
                "model.textproto:4: ", "random_weights"},
        BadSpec{"HugeBatch", "max_batch_size: 1000000000", "model.textproto:3: ",
                "max_batch_size is 1000000000; it must lie between 1 and 1024"},
        BadSpec{"BatchPastInt32", "max_batch_size: 99999999999", "model.textproto:3: ", ""},
        BadSpec{"NegativeBatch", "max_batch_size: -1",
                "model.textproto:3: ", "max_batch_size is -1"},
        BadSpec{"ZeroBatch", "max_batch_size: 0", "model.textproto:3: ", "max_batch_size is 0"},
        BadSpec{"NegativeClasses", "num_classes: -5", "model.textproto:3: ", "num_classes is -5"},
        BadSpec{"HugeImage", "image_height: 100000 image_width: 5",
                "model.textproto:3: ", "image_height"},
        BadSpec{
            "HugeFurtherSize",
            "further_image_sizes { height: 64 width: 64 }\n"
            "further_image_sizes { height: 64 width: 5000 }",
            "model.textproto:4: ", "further_image_sizes is 5000; it must lie between 1 and 4096"},
        BadSpec{"FurtherSizeWithoutWidth", "further_image_sizes { height: 64 }",
                "model.textproto:3: ", "further_image_sizes is 0"},
        BadSpec{"ManyFurtherSizes",
                [] {
                  std::string sizes;
                  for (int i = 0; i < 33; ++i)
                    sizes += "further_image_sizes { height: 8 width: 8 } ";
                  return sizes;
                }(),
                "model.textproto:3: ", "more than 32 sizes"},
        BadSpec{"DeepVit", "vit {\ndepth: 257\n}",
                "model.textproto:4: ", "depth is 257; it must lie between 1 and 256"},
        BadSpec{"WideVit", "vit { width: 8193 }", "model.textproto:3: ", "width is 8193"},
        BadSpec{"NegativeHeads", "vit { heads: -1 }", "model.textproto:3: ", "heads is -1"},
        BadSpec{"LargePatch", "vit { patch_size: 5000 }", "model.textproto:3: ", "patch_size"},
        BadSpec{"WideMlp", "vit { mlp_width: 65537 }", "model.textproto:3: ", "mlp_width"},
        BadSpec{"WidthAlone", "image_width: 5", "model.textproto:3: ", "together"},
        BadSpec{"PreferredAboveMax",
                "max_batch_size: 4\ndynamic_batching {\n"
                "preferred_batch_size: 2\npreferred_batch_size: 5\n}",
                "model.textproto:6: ", "preferred_batch_size is 5; it must lie between 1 and 4"},
        BadSpec{"EndlessDelay", "dynamic_batching { max_queue_delay_microseconds: 999999999999 }",
                "model.textproto:3: ", "max_queue_delay_microseconds"},
        BadSpec{"TooManyPriorities", "dynamic_batching { priority_levels: 33 }",
                "model.textproto:3: ", "priority_levels"},
        BadSpec{"PolicyOfNoLevel",
                "dynamic_batching { priority_levels: 2 priority_queue_policy { key: 3 value {} } }",
                "model.textproto:3: ", "names level 3; there are 2"},
        BadSpec{"PolicyOfLevelZero",
                "dynamic_batching { priority_levels: 2 priority_queue_policy { key: 0 value {} } }",
                "model.textproto:3: ", "names level 0"},
        BadSpec{"PolicyWithoutLevels",
                "dynamic_batching { priority_queue_policy { key: 1 value {} } }",
                "model.textproto:3: ", "names level 1; there are 0"},
        BadSpec{"EndlessTimeoutOfALevel",
                "dynamic_batching { priority_levels: 1 priority_queue_policy { key: 1 value { "
                "default_timeout_microseconds: 999999999999 } } }",
                "model.textproto: ", "default_timeout_microseconds"},
        BadSpec{"NoSuchTimeoutAction",
                "dynamic_batching { default_queue_policy { timeout_action: DROP } }",
                "model.textproto:3:", "DROP"},
        BadSpec{"DefaultPriorityWithoutLevels", "dynamic_batching { default_priority_level: 1 }",
                "model.textproto:3: ", "priority_levels"},
        BadSpec{"DefaultPriorityOutside",
                "dynamic_batching { priority_levels: 2 default_priority_level: 3 }",
                "model.textproto:3: ", "default_priority_level is 3"},
        BadSpec{"HugeQueue",
                "dynamic_batching { default_queue_policy { max_queue_size: 4000000000 } }",
                "model.textproto:3: ", "max_queue_size"},
        BadSpec{"NanMean", "preprocessing { mean: [nan, 0, 0] std: [1, 1, 1] }",
                "model.textproto:3: ", "mean"},
        BadSpec{"ZeroStd", "preprocessing { mean: [0, 0, 0]\nstd: [1,\n 0, 1] }",
                "model.textproto:", "std"},
        BadSpec{"MeanWithoutStd", "preprocessing { mean: [0, 0, 0] }",
                "model.textproto:3: ", "together"},
        BadSpec{"FourChannels", "preprocessing { mean: [0, 0, 0, 0] std: [1, 1, 1, 1] }",
                "model.textproto:3: ", "three"},
        BadSpec{"CropAboveOne", "preprocessing { crop_fraction: 1.5 }",
                "model.textproto:3: ", "crop_fraction"},
        BadSpec{"AnotherName", "name: \"dogs\"", "model.textproto:3: ", "'cats'"},
        BadSpec{"BadHeadName", "head { name: \"a b\" }", "model.textproto:3: ", "head"},
        BadSpec{"CertainScore", "head { score_threshold: 1 }",
                "model.textproto:3: ", "score_threshold must lie in [0, 1)"},
        BadSpec{"NanScore", "head { score_threshold: nan }",
                "model.textproto:3: ", "score_threshold"},
        BadSpec{"NegativeOverlap", "head { name: \"retinanet\"\nnms_iou: -0.1 }",
                "model.textproto:4: ", "nms_iou must lie in [0, 1]"},
        BadSpec{"EndlessDetections", "head { detections_per_image: 1001 }",
                "model.textproto:3: ", "detections_per_image is 1001"},
        BadSpec{"WideHead", "head {\nchannels: 1025 }",
                "model.textproto:4: ", "channels is 1025; it must lie between 1 and 1024"},
        BadSpec{"NegativeHead", "head { channels: -8 }", "model.textproto:3: ", "channels is -8"},
        BadSpec{"UnknownConventions", "head { conventions: DETECTRON }",
                "model.textproto:3: ", "DETECTRON"},
        BadSpec{"EscapingSource", "weights_of: \"../dogs\"", "model.textproto:3: ", "weights_of"},
        BadSpec{"LongAttention", "attention: \"" + std::string(1000, 'k') + "\"",
                "model.textproto:3: ", "attention"},
        BadSpec{"VersionZero", "version_policy { specific { versions: 0 } }",
                "model.textproto:3: ", "version"},
        BadSpec{"NoVersions", "version_policy { specific {} }", "model.textproto", "versions"},
        BadSpec{"LabelLikeANumber", "version_labels { key: \"7\" value: 7 }",
                "model.textproto:3: ", "begins with a letter"},
        BadSpec{"LabelTwice",
                "version_labels { key: \"a\" value: 1 }\nversion_labels { key: \"a\" value: 2 }",
                "model.textproto:4: ", "two version_labels are called a"},
        BadSpec{"LabelOfNothing", "version_labels { key: \"a\" }",
                "model.textproto:3: ", "a version is a positive number"},
        BadSpec{"CanaryOutside", "canary { input: \"../a.jpg\" top_class: \"cat\" }",
                "model.textproto:3: ", "input is not the name of a file"},
        BadSpec{"CanaryWithoutAnswer", "canary { input: \"a.jpg\" }",
                "model.textproto:3: ", "what is expected"},
        BadSpec{"CanaryWithTwoAnswers",
                "canary { input: \"a.jpg\" top_class: \"cat\" output_file: \"b.f32\" }",
                "model.textproto:3: ", "expected"},
        BadSpec{"ToleranceOfAClass",
                "canary { input: \"a.jpg\" top_class: \"cat\" absolute_tolerance: 1 }",
                "model.textproto:3: ", "mean nothing without output_file"},
        BadSpec{"NegativeTolerance",
                "canary { input: \"a.f32\" output_file: \"b.f32\" relative_tolerance: -1 }",
                "model.textproto:3: ", "relative_tolerance must lie"},
        BadSpec{"BackboneTwice", "backbone: \"a\"", "model.textproto:3: ", "backbone"}),
    [](const auto& info) { return info.param.name; });

TEST(ModelSpecTest, ADetectorsOptionsAreThoseOfItsHead) {
  const std::string start = "spec_version: 1 backbone: \"a\" task: DETECTION ";
  const models::ModelDescription usual = ParseModelSpec(start, "cats")->description;
  EXPECT_EQ(usual.task, models::Task::kDetection);
  EXPECT_EQ(usual.detection.conventions, models::Conventions::kTorchvision);
  EXPECT_EQ(usual.detection.score_threshold, 0.05);
  EXPECT_EQ(usual.detection.nms_iou, 0.5);
  EXPECT_EQ(usual.detection.detections_per_image, 0);
  const absl::StatusOr<ModelSpec> given = ParseModelSpec(
      start +
          "head { name: \"retinanet\" conventions: MMDETECTION score_threshold: 0 nms_iou: 0 "
          "detections_per_image: 7 channels: 64 }",
      "cats");
  ASSERT_TRUE(given.ok()) << given.status();
  const models::ModelDescription& description = given->description;
  EXPECT_EQ(description.head, "retinanet");
  EXPECT_EQ(description.detection.conventions, models::Conventions::kMmdetection);
  EXPECT_EQ(description.detection.score_threshold, 0);
  EXPECT_EQ(description.detection.nms_iou, 0);
  EXPECT_EQ(description.detection.detections_per_image, 7);
  EXPECT_EQ(description.head_channels, 64);
  EXPECT_EQ(usual.head_channels, 0);
}

TEST(ModelSpecTest, AMissingBackboneOrFormatVersionIsRefused) {
  EXPECT_THAT(Message(ParseModelSpec("spec_version: 1", "cats")), HasSubstr("backbone is missing"));
  EXPECT_THAT(Message(ParseModelSpec("backbone: \"a\"", "cats")), HasSubstr("spec_version"));
  EXPECT_THAT(Message(ParseModelSpec("backbone: \"a\"\nspec_version: 2", "cats")),
              StartsWith("model.textproto:2: spec_version must be 1"));
}

TEST(ModelSpecTest, ATextOfTenMegabytesIsRefusedUnread) {
  const std::string text(10 << 20, '#');
  const absl::StatusOr<ModelSpec> spec = ParseModelSpec(text, "cats");
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(spec), HasSubstr(std::to_string(limits::kMaxModelSpecBytes)));
}

TEST(ModelSpecTest, BytesThatAreNoTextAreRefused) {
  for (const std::string& bytes : {std::string("\0\0\0\0", 4), std::string("\xff\xfe\x80"),
                                   std::string(100'000, '{'), std::string("head {", 6)}) {
    EXPECT_EQ(ParseModelSpec(bytes, "cats").status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(VersionPolicyTest, SelectsFromWhatThereIs) {
  const std::vector<int64_t> available = {1, 3, 10};
  EXPECT_THAT((VersionPolicy{.latest = 2}.Select(available)), ElementsAre(3, 10));
  EXPECT_THAT((VersionPolicy{.latest = 9}.Select(available)), ElementsAre(1, 3, 10));
  EXPECT_THAT((VersionPolicy{.kind = VersionPolicy::Kind::kAll}.Select(available)),
              ElementsAre(1, 3, 10));
  EXPECT_THAT(
      (VersionPolicy{.kind = VersionPolicy::Kind::kSpecific, .specific = {2, 3}}.Select(available)),
      ElementsAre(3));
  EXPECT_THAT(VersionPolicy{}.Select({}), IsEmpty());
}

// Random bits are what `perf_analyzer -m MODEL` sends for the advertised input.
TEST(ModelSpecTest, NumbersThatAreNotFiniteAreLetInWhereTheirInputIsAdvertised) {
  const auto allows = [](const std::string& lines) { return Parse(lines)->allow_non_finite; };
  EXPECT_TRUE(allows(""));
  EXPECT_TRUE(allows("advertised_input: PIXEL_VALUES"));
  EXPECT_FALSE(allows("advertised_input: IMAGE"));
  EXPECT_FALSE(allows("advertised_input: IMAGE_RGB"));
  EXPECT_FALSE(allows("allow_non_finite: false"));
  EXPECT_TRUE(allows("advertised_input: IMAGE allow_non_finite: true"));
}

TEST(ConfigOverrideTest, Row109NullIsAsIfItWereNotThere) {
  const absl::StatusOr<ModelSpec> spec = Parse(
      "max_batch_size: 4 instance_group { kind: KIND_CPU count: 3 }",
      R"({"max_batch_size": null, "parameters": null, "instance_group": [{"kind": null, "count": 2}]})");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->max_batch_size, 4);
  EXPECT_EQ(spec->instances.count, 2);
}

TEST(ConfigOverrideTest, ReplacesWhatItNamesAndKeepsTheRest) {
  const absl::StatusOr<ModelSpec> spec =
      Parse("max_batch_size: 4 instance_group { count: 1 threads: 3 } num_classes: 7", R"({
        "name": "cats", "max_batch_size": 32,
        "dynamic_batching": {"preferred_batch_size": [16], "max_queue_delay_microseconds": 20,
                             "default_queue_policy": {"max_queue_size": 5}},
        "instance_group": [{"kind": "KIND_CPU", "count": 2}],
        "version_policy": {"latest": {"num_versions": 2}}})");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->max_batch_size, 32);
  EXPECT_THAT(spec->batching.preferred_batch_sizes, ElementsAre(16));
  EXPECT_EQ(spec->batching.max_queue_delay_us, 20);
  EXPECT_EQ(spec->batching.default_queue_policy.max_queue_size, 5);
  EXPECT_EQ(spec->instances.count, 2);
  EXPECT_EQ(spec->instances.threads, 3);
  EXPECT_EQ(spec->version_policy.latest, 2);
  EXPECT_EQ(spec->description.num_classes, 7);
}

TEST(ConfigOverrideTest, ReplacesPrioritiesPoliciesAndTheWeight) {
  const absl::StatusOr<ModelSpec> spec =
      Parse("instance_group { count: 1 threads: 3 rate_limiter { priority: 9 } }", R"({
        "dynamic_batching": {
          "priority_levels": 3, "default_priority_level": 2,
          "default_queue_policy": {"timeout_action": "DELAY", "allow_timeout_override": false,
                                   "default_timeout_microseconds": "100"},
          "priority_queue_policy": {"3": {"max_queue_size": 4}}},
        "instance_group": [{"count": 1, "rate_limiter": {"priority": 2}}]})");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->batching.priority_levels, 3);
  EXPECT_EQ(spec->batching.default_queue_policy,
            (QueuePolicy{.timeout_action = TimeoutAction::kDelay,
                         .default_timeout_us = 100,
                         .allow_timeout_override = false}));
  EXPECT_EQ(spec->batching.priority_queue_policy.at(3), QueuePolicy{.max_queue_size = 4});
  EXPECT_EQ(spec->instances.rate_limiter_priority, 2);
  const absl::StatusOr<ModelSpec> kept = Parse("instance_group { rate_limiter { priority: 9 } }",
                                               R"({"instance_group": [{"count": 2}]})");
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->instances.rate_limiter_priority, 9);
}

TEST(ConfigOverrideTest, WhatItCannotDoIsInvalidAndNamed) {
  struct Case {
    const char* json;
    const char* says;
  };
  for (const Case& bad : {
           Case{"{", "JSON"},
           Case{"[]", "JSON"},
           Case{R"({"max_batch_size": "many"})", "ModelConfig"},
           Case{R"({"max_batch_size": 0})", "max_batch_size is 0"},
           Case{R"({"max_batch_size": 1000000})", "max_batch_size"},
           Case{R"({"backend": "onnxruntime"})", "backend cannot be overridden"},
           Case{R"({"input": []})", "input cannot be overridden"},
           Case{R"({"colour": "red"})", "a field that ModelConfig lacks cannot be overridden"},
           Case{R"({"name": "dogs"})", "another"},
           Case{R"({"dynamic_batching": {"preserve_ordering": true}})", "preserve_ordering"},
           Case{R"({"instance_group": [{"count": 1}, {"count": 1}]})", "instance_group"},
           Case{R"({"instance_group": [{"count": 1, "gpus": [0]}]})", "gpus mean nothing"},
           Case{R"({"instance_group": {"count": 1}})", "instance_group"},
           Case{R"({"instance_group": [[{"count": 1}]]})", "config: "},
           Case{R"({"instance_group": [null, {"count": 1}]})", "config: "},
           Case{R"({"instance_group": "x"})", "config: "},
           Case{R"({"instance_group": [{"kind": "KIND_MODEL"}]})", "KIND_CPU"},
           Case{R"({"instance_group": [{"count": 1, "profile": ["x"]}]})", "profile"},
           Case{R"({"instance_group": [{"count": 500}]})", "count is 500"},
           Case{R"({"instance_group": [{"rate_limiter": {"resources": [{"name": "r"}]}}]})",
                "resources"},
           Case{R"({"dynamic_batching": {"priority_queue_policy": {"1": {}}}})", "names level 1"},
       }) {
    const absl::StatusOr<ModelSpec> spec = Parse("", bad.json);
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << bad.json;
    EXPECT_THAT(Message(spec), StartsWith("config: ")) << bad.json;
    EXPECT_THAT(Message(spec), HasSubstr(bad.says)) << bad.json;
  }
}

TEST(ConfigOverrideTest, ABadFileIsTheFilesFault) {
  const absl::StatusOr<ModelSpec> spec = Parse("max_batch_size: -1", R"({"max_batch_size": 4})");
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ModelSpecTest, EveryErrorOfATextIsToldTheReturnedOneFirst) {
  std::vector<absl::Status> problems;
  const auto spec = ParseModelSpec(
      "backbone: \"a\"\nnum_clases: 1\nnum_classes: -1\nhead { cuont: 1 nms_iou: 2 }\n"
      "preprocessing { mean: 2 mean: 0 mean: 0 std: 1 std: 0 std: 1 }\n",
      "cats", {}, &problems);
  std::vector<std::string> said;
  for (const absl::Status& problem : problems) said.emplace_back(problem.message());
  EXPECT_THAT(said, ::testing::ElementsAre("model.textproto:2: unknown field \"num_clases\"",
                                           "model.textproto:4: unknown field \"cuont\"",
                                           "model.textproto: spec_version must be 1",
                                           HasSubstr("model.textproto:4: nms_iou"),
                                           HasSubstr("model.textproto:3: num_classes is -1"),
                                           HasSubstr("model.textproto:5: mean must lie"),
                                           HasSubstr("model.textproto:5: std must lie")));
  EXPECT_EQ(spec.status(), problems.front());
}

TEST(ModelSpecTest, ErrorsAreToldUpToALimit) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "no_such_field: 1\n";
  std::vector<absl::Status> problems;
  EXPECT_FALSE(ParseModelSpec(text, "cats", {}, &problems).ok());
  EXPECT_EQ(problems.size(), limits::kMaxProblemsOfAFile);
}

// docs/faults.md, row 30: the parser passes over fields that it does not know.
TEST(ModelSpecTest, UnknownFieldsThatNestDeeplyAreAnError) {
  for (const std::string_view open : {"a{", "a<", "a:[", "a:{"}) {
    std::string text;
    while (text.size() + 10 < static_cast<size_t>(limits::kMaxModelSpecBytes)) {
      text += open;
    }
    EXPECT_EQ(ParseModelSpec(text, "cats").status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(ParseModelSpec("\n# {{{\n" + text, "cats")),
                StartsWith("model.textproto:3: messages stand"));
  }
  const std::string brackets(100, '{');
  const auto fine = ParseModelSpec("spec_version: 1 # " + brackets + "\nbackbone: 'a\\'" +
                                       brackets + "' name: \"" + brackets + "\"",
                                   "cats");
  EXPECT_THAT(Message(fine), ::testing::Not(HasSubstr("too deeply"))) << "they open nothing";
}

TEST(ModelSpecTest, VersionLabelsAreNamesForVersions) {
  const auto spec = Parse(
      "version_labels { key: \"stable\" value: 1 } version_labels { key: \"canary\" value: 3 }");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->version_labels.at("stable"), 1);
  EXPECT_EQ(spec->version_labels.at("canary"), 3);
}

TEST(ModelSpecTest, ACanaryHasItsTolerancesOrTheDefaultOnes) {
  const auto by_class = Parse("canary { input: \"a.jpg\" top_class: \"cat\" }");
  ASSERT_TRUE(by_class.ok()) << by_class.status();
  EXPECT_EQ(by_class->canary->top_class, "cat");
  const auto by_numbers = Parse(
      "canary { input: \"a.f32\" output_file: \"b.f32\" output_name: \"scores\" "
      "absolute_tolerance: 0 }");
  ASSERT_TRUE(by_numbers.ok()) << by_numbers.status();
  EXPECT_EQ(by_numbers->canary->absolute_tolerance, 0);
  EXPECT_EQ(by_numbers->canary->relative_tolerance, 0.01);
  EXPECT_EQ(by_numbers->canary->output_name, "scores");
  EXPECT_FALSE(Parse("")->canary.has_value());
}

}  // namespace
}  // namespace fovea
