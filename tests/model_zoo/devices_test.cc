// Every model of the zoo on another device than the CPU: it gives there what it gives here, mixes
// no devices, and waits for nothing.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/registry/backbones.h"
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

// What `make` gives, prepared for both devices, its numbers drawn as `attention` needs them. Which
// of two keys with nearly the same logit k-NN attention keeps is decided by rounding: not of all of
// the pixels that are drawn.
void ExpectTheSameOnBoth(const Maker& make, const std::string& attention) {
  constexpr uint64_t kDraws = 5;
  const kernels::ScopedForcedImplementation forced(kernels::Implementation::kReference);
  const auto prepared = [&](const Placement& placement) {
    std::shared_ptr<Backbone> network = make();
    const at::NoGradGuard no_grad;
    Enliven(*network, attention);
    network->eval();
    const c10::InferenceMode inference;
    network->Prepare(placement);
    return network;
  };
  const std::shared_ptr<Backbone> here = prepared({}), there = prepared({.device = kSecondDevice});
  const ModelInfo& info = here->info();
  const c10::InferenceMode inference;
  double error = 0;
  for (uint64_t seed = 1; seed <= kDraws && (seed == 1 || error > kBound); ++seed) {
    const at::Tensor pixels = Noise(at::empty({2, 3, info.image_height, info.image_width}), seed);
    const at::Tensor on_device = pixels.to(kSecondDevice);
    ForwardContext context;
    WatchedDevice watch;
    const at::Tensor found = there->forward(on_device, context).at(0);
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
    if (entry.name == "identity") continue;  // takes bytes
    const Maker make = [&] { return entry.make_tiny({.backbone = entry.name}); };
    ExpectTheSameOnBoth(make, make()->info().attention);
  }
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

}  // namespace
}  // namespace fovea::models
