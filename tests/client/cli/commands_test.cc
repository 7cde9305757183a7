// models, stats, load, unload and compare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/client/cli/run_fovea.h"
#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

TEST(Models, AreATableWithTheReasonsBelow) {
  FakeServer server{{.name = "broken",
                     .version = "",
                     .state = "UNAVAILABLE",
                     .reason = "the weights lack 'head.bias'"},
                    {.name = "noise", .attention = "knn:k=16", .untrained = true},
                    {.name = "shapes"}};
  const Outcome outcome = Fovea({"--server", server.address(), "models"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "NAME    VERSION  STATE             TASK            ATTENTION  BACKBONE            "
            "PRECISION  INPUT\n"
            "broken        -  unavailable       -               -          -                   "
            "-          -\n"
            "noise         1  ready, untrained  classification  knn:k=16   vit_demo_patch8_64  "
            "FP32       3x64x64 FP32\n"
            "shapes        1  ready             classification  dense      vit_demo_patch8_64  "
            "FP32       3x64x64 FP32\n"
            "\n"
            "broken: the weights lack 'head.bias'\n");
}

TEST(Models, OfAnEmptyServerAreASentence) {
  FakeServer server{};
  EXPECT_EQ(Fovea({"--server", server.address(), "models"}).out,
            "The server's model repository is empty.\n");
}

TEST(Models, AreJson) {
  FakeServer server{{.name = "shapes"}};
  const Json json = Json::parse(Fovea({"--server", server.address(), "models", "--json"}).out);
  const Json& model = json["models"][0];
  EXPECT_EQ(model["name"], "shapes");
  EXPECT_EQ(model["attention"], "dense");
  EXPECT_EQ(model["inputs"][0]["shape"], Json({-1, 3, 64, 64}));
  EXPECT_EQ(model["untrained"], false);
}

TEST(Health, IsReadyWhereTheServerAndEachModelIs) {
  FakeServer server{{.name = "broken",
                     .version = "",
                     .state = "UNAVAILABLE",
                     .reason = "the weights lack 'head.bias'"},
                    {.name = "shapes"}};
  for (const std::vector<std::string>& models :
       {std::vector<std::string>{}, {"shapes"}, {"shapes/1", "shapes"}}) {
    std::vector<std::string> arguments = {"--server", server.address(), "health"};
    arguments.insert(arguments.end(), models.begin(), models.end());
    const Outcome outcome = Fovea(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "ready\n");
  }
  Outcome outcome = Fovea({"--server", server.address(), "health", "shapes", "broken"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "fovea: broken: it is not ready: the weights lack 'head.bias'\n");
  outcome = Fovea({"--server", server.address(), "health", "unknown"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the repository has no model of that name"));
}

TEST(Health, OfAServerThatTakesNoRequestsFails) {
  FakeServer server{};  // which is live, and not ready
  const Outcome outcome = Fovea({"--server", server.address(), "health"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "fovea: the server is not ready: it is starting or stopping\n");
}

TEST(Health, OfAServerThatWaitsForModelsNamesThem) {
  FakeServer server{{.name = "broken",
                     .version = "",
                     .state = "UNAVAILABLE",
                     .reason = "the weights lack 'head.bias'"},
                    {.name = "large", .version = "", .state = "LOADING"},
                    {.name = "other", .version = "", .state = "UNAVAILABLE"}};
  const Outcome outcome = Fovea({"--server", server.address(), "health"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "fovea: the server is not ready: broken: the weights lack 'head.bias'; large: it is "
            "being loaded\n");
}

TEST(Stats, AreATableOfMeans) {
  FakeServer server{{.name = "shapes"}};
  const Outcome outcome = Fovea({"--server", server.address(), "stats", "shapes"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              HasSubstr("NAME    VERSION  REQUESTS  FAILED  IMAGES  BATCHES  IMAGES/BATCH  QUEUE "
                        "ms  COMPUTE ms  TOTAL ms  MEMORY MiB  LAST REQUEST\n"
                        "shapes        1       100       2     120       48           2.5      "
                        "0.50        8.00     10.00       22.00  never\n"));
}

TEST(Stats, AreJson) {
  FakeServer server{{.name = "shapes"}};
  const Json json = Json::parse(Fovea({"--server", server.address(), "stats", "--json"}).out);
  EXPECT_EQ(json["models"][0]["success"], Json::parse(R"({"count": 100, "ns": 1000000000})"));
  EXPECT_EQ(json["models"][0]["last_inference"], nullptr);
}

TEST(Stats, OfAnUnknownModelFail) {
  FakeServer server{{.name = "shapes"}};
  const Outcome outcome = Fovea({"--server", server.address(), "stats", "unknown"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "fovea: model 'unknown' is not loaded: the repository has no model of that name (see "
            "fovea models)\n");
}

TEST(Load, GoesOnAfterAModelThatFails) {
  FakeServer server{{.name = "shapes"}};
  const Outcome outcome = Fovea({"--server", server.address(), "load", "broken", "shapes"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "loaded shapes\n");
  EXPECT_EQ(outcome.err, "fovea: broken: the weights lack 'head.bias'\n");
}

TEST(Unload, SaysWhatItUnloaded) {
  FakeServer server{{.name = "shapes"}};
  const Outcome outcome = Fovea({"--server", server.address(), "unload", "shapes"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "unloaded shapes\n");
}

class Compare : public FoveaTest {
 protected:
  Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address(), "compare"});
    return Fovea(arguments);
  }

  FakeServer server_{{.name = "dense", .compute_ns = 4'000'000, .peak_bytes = 6 << 20},
                     {.name = "knn",
                      .attention = "knn:k=16",
                      .classes = {{1, "square", 0.5f}, {0, "circle", 0.45f}, {2, "star", 0.05f}},
                      .compute_ns = 3'000'000,
                      .peak_bytes = 2 << 20},
                     {.name = "noisy", .doubt = true}};
};

TEST_F(Compare, AsksForEachAttentionOverEachModel) {
  const Outcome outcome = Run({Image("a.jpg"), Image("b.jpg"),
                               "--model",      "dense",
                               "--model",      "knn/1",
                               "--attention",  "knn:k=5",
                               "--attention",  "knn:k=9",
                               "--rounds",     "30",
                               "--max-rounds", "70",
                               "--max-time",   "2s",
                               "--batch",      "4",
                               "--threads",    "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto asked = server_.compared();
  ASSERT_EQ(asked.size(), 1u);
  std::vector<std::string> variants;
  for (const auto& variant : asked[0].variants()) {
    variants.push_back(variant.model_name() + "/" + variant.model_version() + " " +
                       variant.attention());
  }
  EXPECT_THAT(variants,
              ElementsAre("dense/ knn:k=5", "dense/ knn:k=9", "knn/1 knn:k=5", "knn/1 knn:k=9"));
  EXPECT_EQ(asked[0].images_size(), 2);
  EXPECT_EQ(asked[0].rounds(), 30);
  EXPECT_EQ(asked[0].max_rounds(), 70);
  EXPECT_EQ(asked[0].max_time_us(), 2'000'000u);
  EXPECT_EQ(asked[0].batch_size(), 4);
  EXPECT_EQ(asked[0].threads(), 1);
}

TEST_F(Compare, OfOneAttentionTheModelAsItIsComesFirst) {
  EXPECT_EQ(Run({Image("a.jpg"), "--model", "dense", "--attention", "knn:k=5"}).exit_code, 0);
  const auto asked = server_.compared();
  ASSERT_EQ(asked.at(0).variants_size(), 2);
  EXPECT_EQ(asked[0].variants(0).attention(), "");
  EXPECT_EQ(asked[0].variants(1).attention(), "knn:k=5");
  Run({Image("a.jpg"), "--model", "dense", "--model", "knn", "--attention", "knn:k=5"});
  const auto of_two = server_.compared().at(1);
  ASSERT_EQ(of_two.variants_size(), 4);
  EXPECT_EQ(of_two.variants(2).model_name(), "knn");
  EXPECT_EQ(of_two.variants(2).attention(), "");
  EXPECT_EQ(of_two.variants(3).attention(), "knn:k=5");
  const Outcome alone = Run({Image("a.jpg"), "--model", "dense"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("there is nothing to compare"));
  EXPECT_EQ(server_.compared().size(), 2u);
}

TEST_F(Compare, PrintsTheControlBesideTheVariantsAndAVerdict) {
  const std::string out = Run({Image("a.jpg"), "--model", "dense", "--model", "knn"}).out;
  EXPECT_THAT(out, ContainsRegex("\ndense/1, dense  +4\\.00  +3\\.90-4\\.20 .* baseline\n"
                                 "dense/1, dense again +4\\.00 .* control\n"
                                 "knn/1, knn:k=16 .*0\\.750  +0\\.740-0\\.760 .* faster\n"));
  EXPECT_THAT(out, ContainsRegex("\ndense/1, dense  +circle 75\\.0 %"));
  EXPECT_THAT(out, ContainsRegex("\nknn/1, knn:k=16  +square 50\\.0 %  +0 of 1 "));
  EXPECT_THAT(out, Not(HasSubstr("is undecided")));
}

TEST_F(Compare, SaysWhoseWeightsAVariantHasAndWhyThereIsNoVerdict) {
  const std::string out = Run({Image("a.jpg"), "--model", "noisy", "--attention", "knn:k=5"}).out;
  EXPECT_THAT(out, HasSubstr("knn:k=5: same weights as dense, not fine-tuned.\n"));
  EXPECT_THAT(out, HasSubstr("knn:k=5 is undecided: its interval or the control's is wider than "
                             "10 %.\n"));
}

TEST_F(Compare, SaysTheSameInJson) {
  const Outcome outcome =
      Run({Image("a.jpg"), "--model", "dense", "--model", "knn", "--rounds", "25", "--json"});
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["rounds"], 25);
  EXPECT_THAT(std::string(json["images"][0]["file"]), EndsWith("a.jpg"));
  EXPECT_EQ(json["images"][0]["height"], 48);
  EXPECT_EQ(json["control"]["verdict"], "EQUIVALENT");
  const Json& knn = json["variants"][1];
  EXPECT_EQ(knn["model_name"], "knn");
  EXPECT_EQ(knn["model_version"], "1");
  EXPECT_EQ(knn["attention"], "knn:k=16");
  EXPECT_FALSE(knn.contains("weights_of_attention"));
  EXPECT_EQ(knn["compute"]["ms"]["median"], 3.0);
  EXPECT_EQ(knn["compute"]["ratio"]["value"], 0.75);
  EXPECT_EQ(knn["compute"]["verdict"], "FASTER");
  EXPECT_EQ(knn["decode_ms"]["median"], 0.4);
  EXPECT_EQ(knn["peak_bytes"], 2 << 20);
  EXPECT_EQ(knn["classes"]["same_top1"], 0);
  EXPECT_EQ(knn["answers"][0]["label"], "square");
  const Json& dense = json["variants"][0];
  EXPECT_EQ(dense["compute"]["verdict"], "VERDICT_UNSPECIFIED");
  EXPECT_FALSE(dense["compute"].contains("ratio"));
  EXPECT_FALSE(dense.contains("classes"));
}

TEST_F(Compare, WritesARowForEachVariant) {
  const std::string csv =
      Run({Image("a.jpg"), "--model", "dense", "--attention", "knn:k=0.5", "--csv"}).out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_THAT(csv, HasSubstr("\r\ndense,1,vit_demo_patch8_64,knn:k=0.5,false,"));
}

TEST_F(Compare, WritesAPageThatNeedsNoOtherFile) {
  const std::string path = folder_ / "report.html";
  const Outcome outcome =
      Run({Image("a.jpg"), "--model", "dense", "--attention", "knn:k=5", "--report", path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::ifstream file(path);
  std::ostringstream read;
  read << file.rdbuf();
  const std::string page = read.str();
  EXPECT_THAT(page, HasSubstr("knn:k=5: same weights as dense, not fine-tuned."));
  EXPECT_THAT(page, HasSubstr("circle 75.0 %"));
  EXPECT_THAT(page, HasSubstr("<svg "));
  for (const char* elsewhere : {"http", "src=", "href=", "url(", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(elsewhere)));
  }
  const Outcome nowhere = Run({Image("a.jpg"), "--model", "dense", "--attention", "knn:k=5",
                               "--report", folder_ / "missing" / "report.html"});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("report.html cannot be written"));
}

TEST_F(Compare, CtrlCEndsIt) {
  LiveOutput err;
  std::ostringstream out;
  int exit_code = -1;
  std::thread comparing([&] {
    exit_code = RunFovea({"--server", server_.address(), "compare", Image("a.jpg", "slow"),
                          "--model", "dense", "--model", "knn"},
                         {.out = out, .err = err, .progress = true});
  });
  EXPECT_TRUE(err.WaitFor("round 7 of 20; times the baseline so far: 1.25"));
  ::raise(SIGINT);
  comparing.join();
  EXPECT_EQ(exit_code, 130);
  EXPECT_EQ(out.str(), "");
  EXPECT_THAT(err.text(), Not(HasSubstr("fovea:"))) << "it is no failure";
}

TEST_F(Compare, FailsAsAWhole) {
  const Outcome unknown = Run({Image("a.jpg"), "--model", "dense", "--model", "densse"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, HasSubstr("model 'densse' is not loaded: the repository has no model of "
                                     "that name (see fovea models); did you mean 'dense'?"));
  const Outcome missing = Run({folder_ / "missing.jpg", "--model", "dense", "--model", "knn"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("missing.jpg"));
  EXPECT_EQ(server_.compared().size(), 1u) << "the file is missed before the server is asked";
}

}  // namespace
}  // namespace fovea::client
