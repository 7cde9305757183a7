// RoIAlign: every implementation, type and layout against the definition, and what it refuses.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/vision/roi_align/op.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/roi_align_case.h"

namespace fovea::kernels {
namespace {

using testing::HasSubstr;

using Arguments = RoiAlignCase;

// Regions in, across and outside of a map of 11 x 13 pixels, some without area, inside out, or on
// whole pixels.
at::Tensor Regions(int64_t images) {
  const at::Tensor corner = 40 * at::rand({24, 2}) - 10;
  at::Tensor rois = at::cat(
      {at::randint(0, images, {24, 1}).to(at::kFloat), corner, corner + 30 * at::rand({24, 2}) - 3},
      1);
  rois.narrow(0, 0, 6).round_();
  rois[6] = at::tensor({0.0f, 4.0f, 4.0f, 4.0f, 4.0f});
  rois[7] = at::tensor({0.0f, -1e6f, -1e6f, 1e6f, 1e6f});
  rois[8] = at::tensor({0.0f, 1e30f, 4.0f, 2e30f, 9.0f});
  rois[9] = at::tensor({0.0f, -1.0f, -1.0f, 27.0f, 23.0f});
  return rois;
}

enum class Layout { kPlanes, kChannelsLast, kTransposed, kCropped };

at::Tensor RandomInput(Layout layout, int64_t channels, at::ScalarType type) {
  switch (layout) {
    case Layout::kPlanes:
      return at::randn({2, channels, 11, 13}).to(type);
    case Layout::kChannelsLast:
      return at::randn({2, 11, 13, channels}).to(type).permute({0, 3, 1, 2});
    case Layout::kTransposed:
      return at::randn({2, channels, 13, 11}).to(type).transpose(2, 3);
    case Layout::kCropped:
      return at::randn({2, channels, 14, 16}).to(type).narrow(2, 2, 11).narrow(3, 1, 13);
  }
  return {};
}

at::Tensor Align(const Arguments& a) {
  return RoiAlign(a.input, a.rois, a.scale, a.h, a.w, a.sampling, a.aligned);
}

void ExpectRight(const Arguments& a) {
  SCOPED_TRACE(testing::Message() << "strides " << a.input.strides() << ", sampling " << a.sampling
                                  << ", aligned " << a.aligned);
  ExpectEveryVariant(a.input.scalar_type(), ExpectedOf(a), [&] { return Align(a); });
}

class RoiAlignNumbersTest : public NumbersTest {};

TEST_P(RoiAlignNumbersTest, AnyMapAndRegionGiveTheDefinedAverages) {
  for (const Layout layout :
       {Layout::kPlanes, Layout::kChannelsLast, Layout::kTransposed, Layout::kCropped}) {
    for (const int64_t channels : {1, 3, 4, 17, 40}) {
      ExpectRight({RandomInput(layout, channels, type()), Regions(2)});
    }
  }
}

TEST_P(RoiAlignNumbersTest, AnySamplingGivesTheDefinedAverages) {
  for (const Layout layout : {Layout::kPlanes, Layout::kChannelsLast}) {
    for (const bool aligned : {true, false}) {
      for (const int64_t sampling : {-1, 0, 1, 2, 3, 7}) {
        Arguments a{RandomInput(layout, 17, type()), Regions(2)};
        a.sampling = sampling;
        a.aligned = aligned;
        // A sample per pixel of 1e6 pixels is more than is taken: those regions are left out.
        if (sampling <= 0) a.rois = at::cat({a.rois.narrow(0, 0, 7), a.rois.narrow(0, 9, 15)});
        ExpectRight(a);
        a.h = a.w = 7;
        a.scale = 1.0;
        ExpectRight(a);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RoiAlignNumbersTest, EveryType(), TypeOf);

class RoiAlignTest : public VariantTest {
 protected:
  void SetUp() override {
    VariantTest::SetUp();
    if (!IsSkipped()) scope_.emplace(variant());
  }

 private:
  std::optional<ScopedVariant> scope_;
};

TEST_P(RoiAlignTest, RegionsFarLargerThanTheMapEnd) {
  for (const Layout layout : {Layout::kPlanes, Layout::kChannelsLast}) {
    Arguments a{RandomInput(layout, 17, type()), Regions(2)};
    a.sampling = 0;
    EXPECT_TRUE(Align(a).isfinite().all().item<bool>());
  }
}

TEST_P(RoiAlignTest, ANonFiniteCoordinateSpoilsItsRegionOnly) {
  for (const Layout layout : {Layout::kPlanes, Layout::kChannelsLast}) {
    Arguments a{RandomInput(layout, 17, type()), Regions(2)};
    a.rois[3][2] = std::nan("");
    a.rois[5][3] = std::numeric_limits<double>::infinity();
    const at::Tensor broken = Align(a).isnan().flatten(1);
    EXPECT_TRUE(broken[3].all().item<bool>() && broken[5].all().item<bool>());
    EXPECT_EQ(broken.any(1).sum().item<int64_t>(), 2);
  }
}

TEST_P(RoiAlignTest, ANaNOutsideOfARegionDoesNotReachIt) {
  for (const Layout layout : {Layout::kPlanes, Layout::kChannelsLast}) {
    Arguments a{RandomInput(layout, 17, type()), at::tensor({0.0f, 2.0f, 2.0f, 12.0f, 12.0f})};
    a.rois = a.rois.unsqueeze(0);
    a.input[0][3][10][12] = std::nan("");
    EXPECT_FALSE(Align(a).isnan().any().item<bool>());
  }
}

TEST_P(RoiAlignTest, TheOutputLiesAsTheMapDoes) {
  Arguments a{RandomInput(Layout::kChannelsLast, 17, type()), Regions(2)};
  EXPECT_TRUE(Align(a).is_contiguous(at::MemoryFormat::ChannelsLast));
  a.input = RandomInput(Layout::kCropped, 17, type());
  EXPECT_TRUE(Align(a).is_contiguous());
}

TEST_P(RoiAlignTest, NoRegionsAreNoMaps) {
  Arguments a{RandomInput(Layout::kPlanes, 17, type()), at::empty({0, 5})};
  EXPECT_EQ(Align(a).sizes(), at::IntArrayRef({0, 17, 3, 4}));
}

TEST_P(RoiAlignTest, ResultsDoNotDependOnTheNumberOfThreads) {
  const Arguments a{RandomInput(Layout::kPlanes, 100, type()), Regions(2).repeat({5, 1})};
  const at::Tensor one = Align(a);
  at::set_num_threads(3);
  EXPECT_TRUE(one.equal(Align(a)));
}

INSTANTIATE_TEST_SUITE_P(Implementations, RoiAlignTest, testing::ValuesIn(EveryVariantAndType()),
                         NameOf);

std::string ErrorOf(const Arguments& a) {
  try {
    Align(a);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(RoiAlignContractTest, BrokenContractsNameArgumentAndValue) {
  const Arguments valid{at::randn({2, 6, 5, 4}), at::rand({3, 5})};
  EXPECT_EQ(ErrorOf(valid), "no error");
  Arguments a = valid;
  a.input = at::randn({6, 5, 4});
  EXPECT_EQ(ErrorOf(a),
            "roi_align: input must have 4 dimensions [batch, channels, height, width], got shape "
            "[6, 5, 4]");
  a.input = at::randn({2, 6, 5, 0});
  EXPECT_EQ(ErrorOf(a), "roi_align: input must have at least one column, got shape [2, 6, 5, 0]");
  a.input = at::ones({2, 6, 5, 4}, at::kInt);
  EXPECT_EQ(ErrorOf(a), "roi_align: input must be Float, BFloat16, Half or Double, got Int");
  a = valid;
  a.rois = at::rand({3, 4});
  EXPECT_EQ(ErrorOf(a), "roi_align: rois must have 5 numbers per region, got shape [3, 4]");
  a.rois = at::rand({3, 5}, at::kDouble);
  EXPECT_EQ(ErrorOf(a), "roi_align: rois must be Float or have input's type Float, got Double");
  a.rois = at::empty({3, 5}, at::kMeta);
  EXPECT_EQ(ErrorOf(a), "roi_align: rois must be on input's device cpu, got meta");
  for (const auto& [index, text] : {std::pair{2.0, "2"}, {-1.0, "-1"}, {std::nan(""), "nan"}}) {
    a.rois = at::rand({3, 5});
    a.rois[1][0] = index;
    EXPECT_EQ(ErrorOf(a), "roi_align: rois must name an image in [0, 2) (input's batch), got " +
                              std::string(text) + " in row 1");
  }
  a = valid;
  a.h = 0;
  EXPECT_EQ(ErrorOf(a), "roi_align: h must be in [1, 32768] (bins), got 0");
  a = valid;
  a.w = 1 << 20;
  EXPECT_EQ(ErrorOf(a), "roi_align: w must be in [1, 32768] (bins), got 1048576");
  a = valid;
  a.sampling = 5000;
  EXPECT_EQ(ErrorOf(a), "roi_align: sampling must be in [1, 4096] (samples per axis), got 5000");
  a = valid;
  a.scale = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ErrorOf(a), "roi_align: spatial_scale must be finite, got inf");
}

TEST(RoiAlignContractTest, TheMetaImplementationChecksAndAllocatesAlike) {
  Arguments a{RandomInput(Layout::kChannelsLast, 6, at::kFloat), at::rand({3, 5})};
  const at::Tensor real = Align(a);
  a.input = a.input.to(at::kMeta);
  a.rois = a.rois.to(at::kMeta);
  EXPECT_EQ(Align(a).sizes(), real.sizes());
  EXPECT_EQ(Align(a).strides(), real.strides());
  a.h = 0;
  EXPECT_THAT(ErrorOf(a), HasSubstr("h must be in [1, 32768]"));
}

}  // namespace
}  // namespace fovea::kernels
