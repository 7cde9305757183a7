// Every model of the zoo on another device than the CPU: it gives there what it gives here, mixes
// no devices, and waits for nothing.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/dispatch.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/heads/detections.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/heads.h"
#include "model_zoo/registry/load.h"
#include "tests/model_zoo/errors.h"
#include "tests/model_zoo/second_device.h"
#include "tests/model_zoo/tried_models.h"

namespace fovea::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SecondDeviceTest, ComputesWhatTheCpuDoes) {
  const at::Tensor here = at::arange(6, at::kFloat).view({2, 3}), there = here.to(kSecondDevice);
  const at::Tensor sum = (there.t() + 1).contiguous().sum(1);
  EXPECT_EQ(sum.device(), kSecondDevice);
  EXPECT_TRUE(sum.cpu().equal((here.t() + 1).sum(1)));
  there.select(0, 1).zero_();
  EXPECT_EQ(there.sum().item<float>(), 3) << "a view shares its memory";
}

TEST(SecondDeviceTest, RefusesTensorsOfBothDevices) {
  const at::Tensor here = at::ones({2}), there = here.to(kSecondDevice);
  EXPECT_THAT(ErrorOf([&] { at::dot(there, here); }), HasSubstr("tensors of the CPU and of hpu:0"));
  EXPECT_NE(ErrorOf([&] { return there + here; }), "no error");
  EXPECT_TRUE((there * at::scalar_tensor(2)).cpu().equal(here * 2)) << "a number is no tensor";
}

TEST(SecondDeviceTest, NotesWhatAGpuCouldNotReplay) {
  const at::Tensor here = at::ones({2}), there = here.to(kSecondDevice);
  WatchedDevice watch;
  (there + there).mul_(2);
  EXPECT_EQ(watch.waited, 0);
  (there > 0).nonzero();
  there.index({there > 0});
  there[0].item<float>();
  there.cpu();
  EXPECT_THAT(watch.waits, ElementsAre("a copy to the host", "aten::_local_scalar_dense",
                                       "aten::index", "aten::nonzero"));
  EXPECT_THAT(watch.uploads, IsEmpty());
  at::tensor({1.F, 2.F, 3.F}, there.options());
  EXPECT_THAT(watch.uploads, ElementsAre("Float [3]"));
}

using Maker = std::function<std::shared_ptr<Backbone>()>;

// Of the spread: some hundred fp32 roundings, through as many as forty blocks.
constexpr double kBound = 1e-4;

// What `make` gives, prepared, its numbers drawn as `attention` needs them.
std::shared_ptr<Backbone> Prepared(const Maker& make, const std::string& attention,
                                   const Placement& placement) {
  std::shared_ptr<Backbone> network = make();
  const at::NoGradGuard no_grad;
  Enliven(*network, attention);
  network->eval();
  const c10::InferenceMode inference;
  network->Prepare(placement);
  return network;
}

// What `make` gives, prepared for both devices, its numbers drawn as `attention` needs them. Which
// of two keys with nearly the same logit k-NN attention keeps is decided by rounding: not of all of
// the pixels that are drawn.
void ExpectTheSameOnBoth(const Maker& make, const std::string& attention) {
  constexpr uint64_t kDraws = 5;
  const kernels::ScopedForcedImplementation forced(kernels::Implementation::kReference);
  const std::shared_ptr<Backbone> here = Prepared(make, attention, {}),
                                  there = Prepared(make, attention, {.device = kSecondDevice});
  const ModelInfo& info = here->info();
  const c10::InferenceMode inference;
  double error = 0;
  for (uint64_t seed = 1; seed <= kDraws && (seed == 1 || error > kBound); ++seed) {
    const at::Tensor pixels = Noise(at::empty({2, 3, info.image_height, info.image_width}), seed);
    const at::Tensor on_device = pixels.to(kSecondDevice);
    ForwardContext context;
    WatchedDevice watch;
    const at::Tensor found = there->forward(on_device, context).at(0);
    EXPECT_TRUE(info.replayable);
    EXPECT_THAT(watch.waits, IsEmpty());
    EXPECT_THAT(watch.uploads, IsEmpty());
    EXPECT_EQ(found.device(), kSecondDevice);
    error = Distance(found.cpu(), here->forward(pixels, context).at(0));
  }
  EXPECT_LE(error, kBound);
}

TEST(DevicesTest, EveryBackboneWithItsPublishedAttention) {
  for (const BackboneEntry& entry : Backbones()) {
    SCOPED_TRACE(entry.name);
    if (entry.name == "identity") continue;  // takes bytes: below
    const Maker make = [&] { return entry.make_tiny({.backbone = entry.name}); };
    ExpectTheSameOnBoth(make, make()->info().attention);
  }
}

TEST(DevicesTest, IdentityGivesItsBytesBackWhereTheyLie) {
  const std::shared_ptr<Backbone> identity =
      FindBackbone("identity")->make({.backbone = "identity"});
  identity->Prepare({.device = kSecondDevice});
  const c10::InferenceMode inference;
  const at::Tensor bytes = at::arange(2 * 224 * 224 * 3).fmod(251).to(at::kByte);
  const at::Tensor on_device = bytes.view({2, 224, 224, 3}).to(kSecondDevice);
  ForwardContext context;
  const WatchedDevice watch;
  const at::Tensor found = identity->forward(on_device, context).at(0);
  EXPECT_THAT(watch.waits, IsEmpty());
  EXPECT_THAT(watch.uploads, IsEmpty());
  EXPECT_EQ(found.device(), kSecondDevice);
  EXPECT_FALSE(found.is_alias_of(on_device));
  EXPECT_TRUE(at::equal(found.cpu().flatten(), bytes));
}

// In a frame whose tokens all lie on the map, and in one with a class token.
TEST(DevicesTest, EveryAttention) {
  for (const std::string& attention : TriedAttentions()) {
    int stands = 0;
    for (const char* backbone : {"demo_frame_64", "deit_tiny_patch16_224"}) {
      SCOPED_TRACE(attention + " in " + backbone);
      const Maker make = [&] {
        return FindBackbone(backbone)->make_tiny({.backbone = backbone, .attention = {attention}});
      };
      if (ErrorOf(make) != "no error") continue;
      ++stands;
      ExpectTheSameOnBoth(make, attention);
    }
    EXPECT_GT(stands, 0) << attention;
  }
}

ModelDescription Demo(const HeadEntry& head, Conventions conventions) {
  ModelDescription description{.backbone = "demo_frame_64",
                               .task = head.task,
                               .head = head.name,
                               .further_sizes = {{64, 96}},
                               .random_weights_seed = 1};
  if (head.make != nullptr) description.num_classes = 3, description.head_channels = 32;
  description.detection.conventions = conventions;
  description.detection.score_threshold = 1e-3;  // an untrained detector is sure of nothing
  return description;
}

// What a model loaded as the server does gives on the device, at its own and at a further size. The
// scores of untrained detectors are nearly equal, so that of those only what is there is compared:
// what they find is the next test's.
TEST(DevicesTest, EveryHeadAtEverySize) {
  for (const HeadEntry& head : Heads()) {
    for (const Conventions conventions : {Conventions::kTorchvision, Conventions::kMmdetection}) {
      const bool torchvision = conventions == Conventions::kTorchvision;
      if (torchvision && (head.task != Task::kDetection || head.name == "cascade_mask_rcnn")) {
        continue;  // nothing else, or none
      }
      SCOPED_TRACE(head.name);
      const std::unique_ptr<Model> here = LoadModel(Demo(head, conventions)),
                                   there = LoadModel(Demo(head, conventions));
      here->Prepare(at::kCPU, Precision::kFp32);
      there->Prepare(kSecondDevice, Precision::kFp32);
      const ModelInfo& info = there->info();
      EXPECT_EQ(info.replayable, !head.name.ends_with("mask_rcnn"));
      for (const ImageSize& size : info.sizes()) {
        // The reference of NMS takes seconds for an image's proposals.
        const int64_t images = info.replayable ? 2 : 1;
        const at::Tensor pixels = Noise(at::empty({images, 3, size.height, size.width}), 1);
        const at::Tensor on_device = pixels.to(kSecondDevice);
        ForwardContext context;
        if (info.replayable) {
          const WatchedDevice watch;
          EXPECT_EQ(there->RunBatch(on_device, context).at(0).device(), kSecondDevice);
          EXPECT_THAT(watch.waits, IsEmpty());
          EXPECT_THAT(watch.uploads, IsEmpty());
        }
        const std::vector<at::Tensor> expected = here->Run(pixels, context);
        const WatchedDevice watch;
        const std::vector<at::Tensor> found = there->Run(on_device, context);
        if (!info.replayable) {
          RecordProperty(head.name + "_waits_for_an_image", watch.waited);
        }
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(found[i].is_cpu() && found[i].is_contiguous());
          EXPECT_EQ(found[i].sizes(), expected[i].sizes());
        }
        if (head.task == Task::kDetection) {
          EXPECT_TRUE((found[3] > 0).all().item<bool>());
          EXPECT_TRUE(at::allclose(found[1], expected[1], 1e-3, 1e-3));
        } else {
          EXPECT_LE(Distance(found[0], expected[0]), kBound);
        }
      }
    }
  }
}

// The furthest that a row of `found` [N, K] is from the nearest of `expected` [M, K].
double FurthestFromAny(const at::Tensor& found, const at::Tensor& expected) {
  constexpr int64_t kWithoutProducts = 2;  // which would round
  return at::cdist(found, expected, 2, kWithoutProducts).amin(1).max().item<double>();
}

// Boxes, scores and classes, and masks. By enlivened weights scores are far
// enough apart to be compared; which of two that are nearly equal comes first, or suppresses the
// other, is decided by rounding: not with all of the pixels that are drawn.
TEST(DevicesTest, DetectorsFindTheSame) {
  constexpr uint64_t kDraws = 5;
  constexpr double kPixels = 0.01, kScores = 1e-4;
  for (const HeadEntry& head : Heads()) {
    if (head.task != Task::kDetection) continue;
    for (const Conventions conventions : {Conventions::kTorchvision, Conventions::kMmdetection}) {
      // Of two stages one, once: the reference of NMS takes seconds.
      const bool two_stages = head.name.ends_with("mask_rcnn");
      if (two_stages && (head.name != "mask_rcnn" || conventions != Conventions::kTorchvision)) {
        continue;
      }
      SCOPED_TRACE(head.name);
      const Maker make = [&] { return LoadBackbone(Demo(head, conventions), Heads()); };
      const std::string attention = make()->info().attention;
      const std::shared_ptr<Backbone> here = Prepared(make, attention, {}),
                                      there = Prepared(make, attention, {.device = kSecondDevice});
      const ImageSize size{here->info().image_height, here->info().image_width};
      const c10::InferenceMode inference;
      bool same = false;
      for (uint64_t seed = 1; seed <= kDraws && !same; ++seed) {
        const at::Tensor pixels = Noise(at::empty({1, 3, size.height, size.width}), seed);
        ForwardContext context;
        std::vector<at::Tensor> expected = here->forward(pixels, context);
        std::vector<at::Tensor> found;
        for (const at::Tensor& t : there->forward(pixels.to(kSecondDevice), context)) {
          found.push_back(t.cpu());
        }
        ASSERT_EQ(found.size(), expected.size());
        if (head.name == "retinanet") {
          // Candidates: a thousand of each map, among which some change places.
          const auto rows = [](const std::vector<at::Tensor>& candidates) {
            const at::Tensor there = candidates[1][0] >= 0;
            return at::cat({candidates[0][0], candidates[1][0].unsqueeze(1) * 100,
                            candidates[2][0].unsqueeze(1) * 1000.0},
                           1)
                .index({there});
          };
          EXPECT_GT(rows(expected).size(0), 100);
          EXPECT_LE(FurthestFromAny(rows(found), rows(expected)), kPixels);
          EXPECT_LE(FurthestFromAny(rows(expected), rows(found)), kPixels);
        }
        expected = here->Finish(std::move(expected), {{size}});
        found = there->Finish(std::move(found), {{size}});
        const int64_t count = expected[3].item<int64_t>();
        EXPECT_GT(count, 5);
        EXPECT_GT(expected[0][0].narrow(0, 0, count).std(0).min().item<double>(), 1)
            << "the boxes differ";
        same = true;
        for (size_t i = 0; i < found.size(); ++i) {
          same = same && at::allclose(found[i], expected[i], 0, i == 0 ? kPixels : kScores);
        }
      }
      EXPECT_TRUE(same);
    }
  }
}

TEST(DevicesTest, TheBestScoresAreTheCpus) {
  at::Tensor logits = (Noise(at::empty({3, 5000}), 2) * 8).round() / 4;  // many are equal
  logits[1][77] = std::numeric_limits<float>::quiet_NaN();
  logits[2].fill_(-9);
  for (const double threshold : {0.0, 0.5, 0.99}) {
    const BestScores here = BestOfRowsAbove(logits, threshold, 1000),
                     there = BestOfRowsAbove(logits.to(kSecondDevice), threshold, 1000);
    const at::Tensor none = here.scores < 0;
    EXPECT_TRUE(at::equal(there.scores.cpu().nan_to_num(7), here.scores.nan_to_num(7)));
    EXPECT_TRUE(at::equal(there.indices.cpu().masked_fill(none, 0), here.indices));
  }
}

// Half as wide numbers are as far off as their roundings: 2^-8 and 2^-11 of each, some dozen times
// through a small model.
TEST(DevicesTest, HalfPrecisions) {
  const kernels::ScopedForcedImplementation forced(kernels::Implementation::kReference);
  for (const char* backbone : {"demo_frame_64", "vit_demo_patch8_64"}) {
    SCOPED_TRACE(backbone);
    const ModelDescription description{.backbone = backbone, .random_weights_seed = 1};
    const auto logits = [&](Precision precision) {
      const std::unique_ptr<Model> model = LoadModel(description);
      model->Prepare(kSecondDevice, precision);
      ForwardContext context;
      return model->Run(Noise(at::empty({2, 3, 64, 64}), 1), context).at(0);
    };
    const at::Tensor expected = logits(Precision::kFp32);
    EXPECT_LE(Distance(logits(Precision::kFp16), expected), 32 * 0x1p-11);
    EXPECT_LE(Distance(logits(Precision::kBf16), expected), 32 * 0x1p-8);
  }
}

TEST(DevicesTest, Fp16IsNotForTheCpu) {
  const auto model = LoadModel({.backbone = "demo_frame_64", .random_weights_seed = 1});
  EXPECT_EQ(ErrorOf([&] { model->Prepare(at::kCPU, Precision::kFp16); }),
            "demo_frame_64 cannot run in FP16 on the CPU, which has FP32, BF16 and INT8");
}

TEST(DevicesTest, Int8IsForTheCpu) {
  const auto model = LoadModel({.backbone = "demo_frame_64", .random_weights_seed = 1});
  EXPECT_EQ(ErrorOf([&] { model->Prepare(kSecondDevice, Precision::kInt8); }),
            "demo_frame_64 cannot run in INT8 on a GPU, which has FP32, BF16 and FP16");
}

}  // namespace
}  // namespace fovea::models
