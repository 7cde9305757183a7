// Non-maximum suppression: every implementation against the definition written as a loop.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/vision/nms/op.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {
namespace {

// Boxes on a coarse grid: many overlaps that fall on a threshold, many without area, some inside
// out.
at::Tensor GridBoxes(int64_t count, at::ScalarType type) {
  return at::randint(0, 12, {count, 4}).to(type) / 4;
}

at::Tensor RandomBoxes(int64_t count, double size, at::ScalarType type) {
  const at::Tensor corner = at::rand({count, 2});
  return at::cat({corner, corner + size * at::rand({count, 2})}, 1).to(type);
}

// Few values, so that equal scores abound.
at::Tensor Scores(int64_t count, at::ScalarType type) {
  return (at::randint(0, 20, {count}).to(at::kFloat) / 20).to(type);
}

template <class T>
std::vector<int64_t> TruthOf(const at::Tensor& boxes, const at::Tensor& scores, double iou) {
  const auto box = boxes.accessor<T, 2>();
  const auto score = scores.accessor<T, 1>();
  const auto at = [&](int64_t i, int64_t c) { return box[i][c]; };
  std::vector<int64_t> order(boxes.size(0)), kept;
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return score[a] > score[b]; });
  for (const int64_t j : order) {
    const bool suppressed = std::any_of(kept.begin(), kept.end(), [&](int64_t i) {
      const T width = std::max(T(0), std::min(at(i, 2), at(j, 2)) - std::max(at(i, 0), at(j, 0)));
      const T height = std::max(T(0), std::min(at(i, 3), at(j, 3)) - std::max(at(i, 1), at(j, 1)));
      const T both = width * height;
      const T area_i = (at(i, 2) - at(i, 0)) * (at(i, 3) - at(i, 1));
      const T area_j = (at(j, 2) - at(j, 0)) * (at(j, 3) - at(j, 1));
      return both / (area_i + area_j - both) > iou;
    });
    if (!suppressed) kept.push_back(j);
  }
  return kept;
}

std::vector<int64_t> ValuesOf(const at::Tensor& t) {
  return {t.const_data_ptr<int64_t>(), t.const_data_ptr<int64_t>() + t.numel()};
}

class NmsTest : public testing::TestWithParam<std::tuple<Variant, at::ScalarType>> {
 protected:
  void SetUp() override {
    at::manual_seed(17);
    if (const char* why = CannotRun(variant())) GTEST_SKIP() << why;
  }

  const Variant& variant() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<1>(GetParam()); }

  std::vector<int64_t> Run(const at::Tensor& boxes, const at::Tensor& scores, double iou) const {
    const ScopedVariant scope(variant());
    return ValuesOf(Nms(boxes, scores, iou));
  }

  void ExpectDefined(const at::Tensor& boxes, const at::Tensor& scores, double iou) const {
    const auto truth = type() == at::kDouble ? &TruthOf<double> : &TruthOf<float>;
    EXPECT_EQ(Run(boxes, scores, iou), truth(boxes, scores, iou))
        << boxes.size(0) << " boxes, iou " << iou;
  }
};

TEST_P(NmsTest, AnyNumberOfBoxesGivesTheDefinedOnes) {
  for (const int64_t count : {1, 2, 3, 7, 16, 17, 33, 64, 65, 100}) {
    for (const double iou : {0.0, 0.3, 0.5, 0.7, 1.0}) {
      ExpectDefined(RandomBoxes(count, 0.7, type()), Scores(count, type()), iou);
    }
  }
}

TEST_P(NmsTest, BoxesWithoutAreaInsideOutOrOnTheThresholdGiveTheDefinedOnes) {
  for (const double iou : {-0.5, 0.0, 0.25, 1.0 / 3.0, 0.5, 0.1, 2.0}) {
    ExpectDefined(GridBoxes(90, type()), Scores(90, type()), iou);
  }
  const at::Tensor same = at::ones({5, 4}, type());
  EXPECT_EQ(Run(same, at::ones({5}, type()), 0.5), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST_P(NmsTest, EqualScoresAreTakenInTheOrderOfTheirIndices) {
  const at::Tensor boxes = at::tensor({0.0, 0.0, 1.0, 1.0}).to(type()).repeat({70, 1});
  EXPECT_EQ(Run(boxes, at::ones({70}, type()), 0.5), std::vector<int64_t>{0});
  EXPECT_EQ(Run(boxes + 2 * at::arange(70).unsqueeze(1), at::ones({70}, type()), 0.5),
            ValuesOf(at::arange(70)));
}

TEST_P(NmsTest, NoBoxesAreNoAnswer) {
  EXPECT_TRUE(Run(at::empty({0, 4}, type()), at::empty({0}, type()), 0.5).empty());
}

TEST_P(NmsTest, StridesDoNotMatter) {
  const at::Tensor wide = RandomBoxes(50, 0.7, type()).t().contiguous();
  ExpectDefined(wide.t(), at::stack({Scores(50, type()), wide[0]}, 1).select(1, 0), 0.4);
}

TEST_P(NmsTest, NaNAndInfinityGiveSomeAnswer) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  at::Tensor boxes = RandomBoxes(40, 0.7, type()), scores = Scores(40, type());
  for (const double odd : {nan, infinity, -infinity}) {
    for (int64_t i = 0; i < 4; ++i) boxes[3 + 5 * i][i] = odd;
    scores[7] = odd;
    const std::vector<int64_t> kept = Run(boxes, scores, 0.5);
    EXPECT_FALSE(kept.empty());
    EXPECT_THAT(kept, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(40))));
    const ScopedForcedImplementation reference(Implementation::kReference);
    EXPECT_EQ(kept, ValuesOf(Nms(boxes, scores, 0.5)));
  }
}

std::string NameOf(const testing::TestParamInfo<NmsTest::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Implementations, NmsTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kDouble)),
                         NameOf);

TEST(NmsTypesTest, HalfTypesAreComparedInFp32) {
  at::manual_seed(17);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const at::Tensor boxes = RandomBoxes(100, 0.7, type), scores = Scores(100, type);
    EXPECT_EQ(ValuesOf(Nms(boxes, scores, 0.5)),
              TruthOf<float>(boxes.to(at::kFloat), scores.to(at::kFloat), 0.5));
  }
}

std::string ErrorOf(const at::Tensor& boxes, const at::Tensor& scores, double iou) {
  try {
    Nms(boxes, scores, iou);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(NmsContractTest, BrokenContractsNameArgumentAndValue) {
  const at::Tensor boxes = at::rand({6, 4}), scores = at::rand({6});
  EXPECT_EQ(ErrorOf(boxes, scores, 0.5), "no error");
  EXPECT_EQ(ErrorOf(at::rand({4}), scores, 0.5),
            "nms: boxes must have 2 dimensions [boxes, 4], got shape [4]");
  EXPECT_EQ(ErrorOf(at::rand({6, 5}), scores, 0.5),
            "nms: boxes must have 4 coordinates, got shape [6, 5]");
  EXPECT_EQ(ErrorOf(boxes.to(at::kInt), scores, 0.5),
            "nms: boxes must be Float, BFloat16, Half or Double, got Int");
  EXPECT_EQ(ErrorOf(boxes, at::rand({6, 1}), 0.5),
            "nms: scores must have 1 dimensions [boxes], got shape [6, 1]");
  EXPECT_EQ(ErrorOf(boxes, at::rand({5}), 0.5),
            "nms: scores must have boxes's box count 6, got shape [5]");
  EXPECT_EQ(ErrorOf(boxes, scores.to(at::kDouble), 0.5),
            "nms: scores must have boxes's type Float, got Double");
  EXPECT_EQ(ErrorOf(boxes, scores.to(at::kMeta), 0.5),
            "nms: scores must be on boxes's device cpu, got meta");
  EXPECT_EQ(ErrorOf(boxes, scores, std::numeric_limits<double>::infinity()),
            "nms: iou must be finite, got inf");
}

TEST(NmsContractTest, KeepChecksItsOrder) {
  const at::Tensor boxes = at::rand({6, 4});
  const auto error_of = [&](const at::Tensor& order) -> std::string {
    try {
      NmsKeep(boxes, order, 0.5);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  };
  EXPECT_EQ(error_of(at::arange(6)), "no error");
  EXPECT_EQ(error_of(at::arange(6).to(at::kInt)), "nms: order must be Long, got Int");
  EXPECT_EQ(error_of(at::arange(5)), "nms: order must have boxes's box count 6, got shape [5]");
  EXPECT_THAT(error_of(at::arange(6) + 1), testing::HasSubstr("out of range"));
}

}  // namespace
}  // namespace fovea::kernels
