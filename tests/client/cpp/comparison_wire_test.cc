#include "client/cpp/comparison_wire.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cpp/cli/comparison_json.h"
#include "client/cpp/cli/comparison_text.h"

namespace fovea::client {
namespace {

TEST(ComparisonWire, AVerdictThatOnlyANewerServerKnowsIsNotTheBaselines) {
  fovea::v1::Comparison message;
  message.add_variants()->set_attention("dense");
  auto& knn = *message.add_variants();
  knn.set_attention("knn:k=9");
  knn.mutable_compute()->set_verdict(static_cast<fovea::v1::Verdict>(99));
  const auto comparison = FromWire(message);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(comparison->variants[0].compute.verdict, Verdict::kBaseline);
  const Verdict verdict = comparison->variants[1].compute.verdict;
  EXPECT_EQ(verdict, Verdict::kUnknown);
  EXPECT_FALSE(IsVerdict(verdict));
  EXPECT_EQ(VerdictText(verdict), "undecided");
  EXPECT_EQ(
      ComparisonNotes(*comparison),
      std::vector<std::string>{"knn:k=9 is undecided: the server is newer than this program."});
  const auto json = nlohmann::json::parse(ComparisonJson(*comparison, {}, "fovea compare"));
  EXPECT_EQ(json["variants"][0]["compute"]["verdict"], "VERDICT_UNSPECIFIED");
  EXPECT_FALSE(json["variants"][1]["compute"].contains("verdict"));
}

}  // namespace
}  // namespace fovea::client
