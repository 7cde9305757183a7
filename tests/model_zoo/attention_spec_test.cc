#include "model_zoo/attention/attention_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_zoo/attention/attention_table.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using ::testing::HasSubstr;

// The names and options that the texts of these tests have. Nothing is made of them here.
const AttentionTable& Table() {
  static const std::vector<CoreEntry> cores = {
      {"dense", "", {"temperature"}, true, nullptr},
      {"knn", "", {"k", "exact", "temperature"}, false, nullptr},
  };
  static const std::vector<std::string_view> keys = {"activation", "scale", "heads", "interpolate"};
  static const std::vector<AttentionModuleEntry> modules = {
      {"self", "", {}, true, nullptr},          {"shifted_window", "", {"window"}, true, nullptr},
      {"axial", "", {}, true, nullptr},         {"criss_cross", "", {}, false, nullptr},
      {"pale", "", {"window"}, true, nullptr},  {"cross_shaped", "", {"window"}, true, nullptr},
      {"aewin", "", {"window"}, true, nullptr}, {"ska", "", keys, false, nullptr},
      {"cska", "", keys, false, nullptr},       {"key_only", "", {}, false, nullptr},
      {"conv", "", {}, false, nullptr},
  };
  static const AttentionTable table{cores, modules};
  return table;
}

AttentionSpec Parse(std::string_view text) { return AttentionSpec::Parse(text, Table()); }

std::string Canonical(const std::string& text) { return Parse(text).Canonical(); }

std::string Stages(const std::vector<std::string>& texts,
                   const std::vector<PublishedStage>& published) {
  return CanonicalStages(ParseStages(texts, published, Table()), published, Table());
}

std::string ParseError(const std::string& text) {
  return ErrorOf([&] { Parse(text); });
}

TEST(AttentionSpecTest, ABareCoreLeavesTheModuleToTheBackbone) {
  const AttentionSpec spec = Parse("knn:k=100");
  EXPECT_EQ(spec.module, "");
  EXPECT_EQ(spec.core, "knn");
  EXPECT_EQ(spec.k->count, 100);
}

TEST(AttentionSpecTest, ABareModuleTakesTheDenseCoreWhereItHasOne) {
  EXPECT_EQ(Parse("self").core, "dense");
  EXPECT_EQ(Parse("cska").core, "");
}

TEST(AttentionSpecTest, OptionsGoToThePartThatTakesThem) {
  const AttentionSpec spec = Parse("shifted_window/knn:k=0.5,window=7,temperature=2.5");
  EXPECT_EQ(spec.k->share, 0.5);
  EXPECT_EQ(spec.window, 7);
  EXPECT_EQ(spec.temperature, 2.5);
}

TEST(AttentionSpecTest, EverySpellingHasOneCanonicalForm) {
  EXPECT_EQ(Canonical("knn:temperature=1,k=007"), "knn:k=7");
  EXPECT_EQ(Canonical("knn:temperature=0.50,k=0.250"), "knn:k=0.25,temperature=0.5");
  EXPECT_EQ(Canonical("knn:k=1.0"), "knn:k=1.0");
  EXPECT_EQ(Canonical("knn:k=1"), "knn:k=1");
  EXPECT_EQ(Canonical("knn:exact,k=3"), "knn:k=3,exact");
  EXPECT_EQ(Canonical("self/dense"), "self");
  EXPECT_EQ(Canonical("shifted_window/knn:window=7,k=9"), "shifted_window/knn:k=9,window=7");
  EXPECT_EQ(Canonical("ska:scale=1.0,activation=gelu"), "ska:activation=gelu,scale=1");
  EXPECT_EQ(Canonical("ska:activation=softmax"), "ska");
  EXPECT_EQ(Canonical("cska:interpolate,heads=08,scale=2"), "cska:scale=2,heads=8,interpolate");
}

TEST(AttentionSpecTest, ACanonicalTextReadsBackAsTheSameAttention) {
  for (const char* text :
       {"dense", "dense:temperature=0.1", "knn:k=0.333333333333333,exact", "knn:k=1.0",
        "pale/knn:k=3,window=7", "cska:activation=star_relu,scale=0.125",
        "ska:heads=16,interpolate", "key_only", "aewin:window=7"}) {
    const AttentionSpec spec = Parse(text);
    EXPECT_EQ(Parse(spec.Canonical()), spec) << text;
  }
}

TEST(AttentionSpecTest, AShareOfTheKeysRoundsToTheNearestCountAndKeepsOne) {
  EXPECT_EQ(Parse("knn:k=0.5").k->Among(197), 99);
  EXPECT_EQ(Parse("knn:k=0.5").k->Among(196), 98);
  EXPECT_EQ(Parse("knn:k=0.001").k->Among(197), 1);
  EXPECT_EQ(Parse("knn:k=1.0").k->Among(197), 197);
  EXPECT_EQ(Parse("knn:k=500").k->Among(197), 500);
}

TEST(AttentionSpecTest, WhatIsWrongWithATextIsSaidInWords) {
  EXPECT_THAT(ParseError(""), HasSubstr("unknown name ''"));
  EXPECT_THAT(ParseError("sparse"),
              HasSubstr("'sparse': unknown name 'sparse'; modules are self,"));
  EXPECT_THAT(ParseError("Dense"), HasSubstr("unknown name"));
  EXPECT_THAT(ParseError(" dense"), HasSubstr("unknown name"));
  EXPECT_THAT(ParseError("self/"), HasSubstr("unknown core ''"));
  EXPECT_THAT(ParseError("self/axial"), HasSubstr("unknown core 'axial'; cores are dense, knn"));
  EXPECT_THAT(ParseError("self/dense/dense"), HasSubstr("unknown core 'dense/dense'"));
  EXPECT_THAT(ParseError("dense/self"), HasSubstr("stands behind the slash"));
  EXPECT_THAT(ParseError("ska/knn:k=3"), HasSubstr("'ska' has no core to choose"));
  EXPECT_THAT(ParseError("dense:"), HasSubstr("no option ''"));
  EXPECT_THAT(ParseError("dense:k=3"), HasSubstr("no option 'k' here"));
  EXPECT_THAT(ParseError("dense:temperature"), HasSubstr("'temperature' needs a value"));
  EXPECT_THAT(ParseError("dense:temperature=0"), HasSubstr("above 0"));
  EXPECT_THAT(ParseError("dense:temperature=-1"), HasSubstr("above 0"));
  EXPECT_THAT(ParseError("dense:temperature=1e3"), HasSubstr("decimal number"));
  EXPECT_THAT(ParseError("dense:temperature=nan"), HasSubstr("decimal number"));
  EXPECT_THAT(ParseError("knn"), HasSubstr("knn needs k"));
  EXPECT_THAT(ParseError("knn:k=0"), HasSubstr("at least 1"));
  EXPECT_THAT(ParseError("knn:k=-3"), HasSubstr("at least 1"));
  EXPECT_THAT(ParseError("knn:k=99999999999999999999"), HasSubstr("at least 1"));
  EXPECT_THAT(ParseError("knn:k=0.0"), HasSubstr("above 0 and at most 1.0"));
  EXPECT_THAT(ParseError("knn:k=1.5"), HasSubstr("above 0 and at most 1.0"));
  EXPECT_THAT(ParseError("knn:k=.5"), HasSubstr("above 0 and at most 1.0"));
  EXPECT_THAT(ParseError("knn:k=3,k=3"), HasSubstr("'k' stands twice"));
  EXPECT_THAT(ParseError("knn:k=3,exact=1"), HasSubstr("'exact' takes no value"));
  EXPECT_THAT(ParseError("axial:window=0"), HasSubstr("no option 'window'"));
  EXPECT_THAT(ParseError("pale:window=0"), HasSubstr("window must be"));
  EXPECT_THAT(ParseError("ska:activation=tanh"), HasSubstr("activation is one of"));
  EXPECT_THAT(ParseError("ska:heads=0"), HasSubstr("heads must be"));
  EXPECT_THAT(ParseError("ska:heads=2.0"), HasSubstr("heads must be"));
  EXPECT_THAT(ParseError("cska:interpolate=1"), HasSubstr("'interpolate' takes no value"));
  EXPECT_THAT(ParseError("self:heads=2"), HasSubstr("no option 'heads' here"));
  EXPECT_THAT(ParseError(std::string(300, 'x')), HasSubstr("at most 256 characters"));
}

TEST(AttentionSpecTest, AnErrorShowsNoControlCharacters) {
  EXPECT_THAT(ParseError("x\n\x1b[31m"), HasSubstr("'x??[31m'"));
}

const PublishedStage kSelf{.text = "dense"};
const PublishedStage kShifted{.text = "shifted_window", .own = "shifted_window"};
const PublishedStage kConvolution = PublishedStage::Convolution();
const PublishedStage kNone = PublishedStage::WithoutAttention();

TEST(AttentionStagesTest, ABareCoreStandsInTheBackbonesOwnModule) {
  EXPECT_EQ(Stages({"self/knn:k=5"}, {kSelf}), "knn:k=5");
  EXPECT_EQ(Stages({"self"}, {kSelf}), "dense");
  EXPECT_EQ(Stages({"knn:k=5"}, {kShifted}), "shifted_window/knn:k=5");
  EXPECT_EQ(Stages({"dense"}, {kShifted}), "shifted_window");
  EXPECT_EQ(Stages({"self"}, {kShifted}), "self");
  EXPECT_EQ(Stages({"shifted_window:window=7"}, {kShifted}), "shifted_window:window=7");
  EXPECT_EQ(Stages({"self"}, {{.text = "dense", .own = ""}}), "self");
  EXPECT_EQ(Stages({"knn:k=3"}, {{.text = "dense", .own = ""}}), "knn:k=3");
}

TEST(AttentionStagesTest, ABareCoreStandsInSelfAttentionWhereTheBackbonesModuleHasNone) {
  const PublishedStage key_only{.text = "key_only"};
  EXPECT_EQ(Stages({}, {key_only, key_only}), "key_only");
  EXPECT_EQ(Stages({"dense"}, {key_only, key_only}), "dense");
  EXPECT_EQ(Stages({"self"}, {key_only, key_only}), "dense");
  EXPECT_EQ(Stages({"knn@2:k=5"}, {key_only, key_only}), "key_only|knn:k=5");
  EXPECT_EQ(Stages({"-|key_only"}, {kNone, key_only}), "key_only");
}

TEST(AttentionStagesTest, OneTextStandsForEveryStageThatAttends) {
  EXPECT_EQ(Stages({}, {kSelf, kSelf}), "dense");
  EXPECT_EQ(Stages({"knn:k=0.5"}, {kSelf, kSelf, kSelf}), "knn:k=0.5");
  EXPECT_EQ(Stages({"ska"}, {kConvolution, kSelf}), "ska");
  EXPECT_EQ(Stages({"conv|ska"}, {kConvolution, kSelf}), "ska");
  EXPECT_EQ(Stages({}, {kNone, kSelf}), "dense");
  EXPECT_EQ(Stages({"-|dense"}, {kNone, kSelf}), "dense");
}

TEST(AttentionStagesTest, StagesAreNamedOneByOne) {
  const std::vector<PublishedStage> published = {kConvolution, kConvolution, kSelf, kSelf};
  EXPECT_EQ(Stages({"conv|cska|dense|dense"}, published), "conv|cska|dense|dense");
  EXPECT_EQ(Stages({"conv", "cska", "dense", "dense"}, published), "conv|cska|dense|dense");
  EXPECT_EQ(Stages({"cska@2"}, published), "conv|cska|dense|dense");
  EXPECT_EQ(Stages({"knn:k=9", "cska@2:activation=gelu"}, published),
            "conv|cska:activation=gelu|knn:k=9|knn:k=9");
  EXPECT_EQ(Stages({"dense@1", "dense@2"}, published), "dense|dense|dense|dense");
  EXPECT_EQ(Stages({"knn@3:k=9"}, {kNone, kSelf, kSelf}), "-|dense|knn:k=9");
}

TEST(AttentionStagesTest, AListReadsBackAsTheSameStages) {
  const std::vector<PublishedStage> published = {kNone, kConvolution, kShifted, kSelf};
  for (const char* text : {"dense", "knn:k=3", "-|conv|dense|ska", "-|self|knn:k=3|dense"}) {
    const std::string once = Stages({text}, published);
    EXPECT_EQ(Stages({once}, published), once) << text;
  }
}

TEST(AttentionStagesTest, StagesThatDoNotFitTheBackboneAreRefused) {
  auto error = [](const std::vector<std::string>& texts, size_t stages) {
    const std::vector<PublishedStage> published(stages, kSelf);
    return ErrorOf([&] { ParseStages(texts, published, Table()); });
  };
  EXPECT_THAT(error({"dense|dense"}, 1), HasSubstr("the backbone's 1 stage"));
  EXPECT_THAT(error({"dense|dense|"}, 3), HasSubstr("unknown name ''"));
  EXPECT_THAT(error({"dense|dense", "dense"}, 2), HasSubstr("with '|' there is one text"));
  EXPECT_THAT(error({"dense", "dense"}, 3), HasSubstr("2 texts for a backbone of 3 stages"));
  EXPECT_THAT(error({"dense@4"}, 3), HasSubstr("there is no stage 4, the backbone has 3"));
  EXPECT_THAT(error({"dense@0"}, 3), HasSubstr("counted from 1"));
  EXPECT_THAT(error({"dense@"}, 3), HasSubstr("counted from 1"));
  EXPECT_THAT(error({"dense@2", "ska@2"}, 3), HasSubstr("stage 2 is named twice"));
  EXPECT_THAT(error({"dense@2", "ska"}, 3), HasSubstr("only the first"));
  EXPECT_THAT(error({"knn:k=3@2"}, 3), HasSubstr("at least 1"));
  EXPECT_THAT(error({"-|dense"}, 2), HasSubstr("stage 1 has an attention"));
}

TEST(AttentionStagesTest, AStageWithoutAttentionTakesNone) {
  const std::vector<PublishedStage> published = {kNone, kSelf};
  EXPECT_THAT(ErrorOf([&] { ParseStages(std::vector<std::string>{"ska@1"}, published, Table()); }),
              HasSubstr("stage 1 has no attention: '-' stands there"));
  EXPECT_THAT(
      ErrorOf([&] { ParseStages(std::vector<std::string>{"dense|dense"}, published, Table()); }),
      HasSubstr("stage 1 has no attention"));
}

}  // namespace
}  // namespace fovea::models
