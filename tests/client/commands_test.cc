// models, stats, load, unload and compare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/fake_server.h"
#include "tests/client/run_fovea.h"

namespace fovea::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;

TEST(Models, AreATableWithTheReasonsBelow) {
  FakeServer server{{.name = "broken",
                     .version = "",
                     .state = "UNAVAILABLE",
                     .reason = "the weights lack 'head.bias'"},
                    {.name = "noise", .attention = "self/knn:k=16", .untrained = true},
                    {.name = "shapes"}};
  const Outcome outcome = Fovea({"--server", server.address(), "models"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "NAME    VERSION  STATE             TASK            ATTENTION      BACKBONE            "
            "PRECISION  INPUT\n"
            "broken        -  unavailable       -               -              -                   "
            "-          -\n"
            "noise         1  ready, untrained  classification  self/knn:k=16  vit_demo_patch8_64  "
            "FP32       3x64x64 FP32\n"
            "shapes        1  ready             classification  self/dense     vit_demo_patch8_64  "
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
  EXPECT_EQ(model["attention"], "self/dense");
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
  EXPECT_EQ(outcome.err, "fovea: the server is not ready: it starts or stops\n");
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
                      .attention = "self/knn:k=16",
                      .classes = {{1, "square", 0.5f}, {0, "circle", 0.45f}, {2, "star", 0.05f}},
                      .compute_ns = 3'000'000,
                      .peak_bytes = 2 << 20}};
};

TEST_F(Compare, AsksEveryModelInEachRoundAndTheFirstTwice) {
  const Outcome outcome = Run({"dense", "knn", "--image", Image("a.jpg"), "--pairs", "3",
                               "--max-pairs", "3", "--warmup", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<std::string> asked = server_.classified();
  ASSERT_EQ(asked.size(), 2u + 4 * 3);  // for the agreement, then one round of warm-up and three
  for (size_t round = 0; round < 4; ++round) {
    const auto first = asked.begin() + 2 + static_cast<std::ptrdiff_t>(3 * round);
    EXPECT_THAT(std::vector(first, first + 3), UnorderedElementsAre("dense", "dense", "knn"));
  }
}

TEST_F(Compare, SaysInJsonWhatTheReceiptsSay) {
  const Outcome outcome = Run(
      {"dense", "knn", "--image", Image("a.jpg"), "--pairs", "20", "--max-pairs", "20", "--json"});
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["rounds"], 20);
  EXPECT_EQ(json["confidence"], 0.95);
  const Json& knn = json["models"][1];
  EXPECT_EQ(knn["model"], "knn");
  EXPECT_EQ(knn["attention"], "self/knn:k=16");
  EXPECT_EQ(knn["compute_ms"]["median"], 3.0);
  EXPECT_EQ(knn["compute_ratio"], Json::parse(R"({"estimate": 0.75, "lower": 0.75, "upper": 0.75,
                                                  "verdict": "faster", "doubt": null})"));
  EXPECT_EQ(knn["batch_peak_bytes"], 2 << 20);
  EXPECT_EQ(knn["top1"][0]["label"], "square");
  EXPECT_EQ(knn["images_agreeing"], 0);
  EXPECT_NEAR(knn["max_confidence_difference"].get<double>(), 0.3, 1e-6);
  EXPECT_GT(knn["latency_ms"]["median"].get<double>(), 0);
  EXPECT_GT(knn["latency_ratio"]["upper"], knn["latency_ratio"]["lower"]);
  EXPECT_EQ(json["control"]["model"], "dense");
  EXPECT_EQ(json["control"]["compute_ratio"]["estimate"], 1.0);
  EXPECT_TRUE(json["settled"].is_boolean());
  EXPECT_EQ(json["models"][0]["images_agreeing"], 1);
}

TEST_F(Compare, PrintsTheControlBesideTheModelsAndAVerdict) {
  const std::string out = Run({"dense", "knn", "--image", Image("a.jpg"), "--pairs", "20"}).out;
  EXPECT_THAT(out, HasSubstr("COMPUTE      ATTENTION      MEDIAN ms  QUARTILES  RATIO  95 % "
                             "INTERVAL  VERDICT\n"
                             "dense        self/dense          4.00  4.00-4.00      -            "
                             "  -  baseline\n"
                             "dense again  self/dense          4.00  4.00-4.00  1.000    "
                             "1.000-1.000  control\n"
                             "knn          self/knn:k=16       3.00  3.00-3.00  0.750    "
                             "0.750-0.750  faster\n"));
  EXPECT_THAT(out, Not(HasSubstr("busy")));
}

// Times as on a machine that others use: the receipts of knn go from 1 to 9 ms.
class CompareNoisy : public Compare {
 protected:
  FakeServer noisy_{{.name = "dense"},
                    {.name = "knn",
                     .compute_series = {1'000'000, 2'000'000, 9'000'000, 1'500'000, 4'000'000,
                                        1'200'000, 6'000'000}}};
};

TEST_F(CompareNoisy, MeasuresOnToItsBoundAndThenGivesNoVerdict) {
  const Outcome outcome = Fovea({"--server", noisy_.address(), "compare", "dense", "knn", "--image",
                                 Image("a.jpg"), "--pairs", "20", "--max-pairs", "45"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("after 20 rounds, measuring on: "));
  EXPECT_THAT(outcome.err, HasSubstr("after 40 rounds, measuring on: "));
  EXPECT_THAT(outcome.out, HasSubstr("a.jpg, 45 rounds"));
  EXPECT_THAT(outcome.out, ContainsRegex("\nknn  .* none\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("No verdict on the compute of knn after 45 rounds: its interval "
                        "or the control's is wider than 10 %.\n"));
}

TEST_F(CompareNoisy, MeasuresTheRoundsThatWereAskedForHoweverLongTheyTake) {
  const Outcome outcome = Fovea({"--server", noisy_.address(), "compare", "dense", "knn", "--image",
                                 Image("a.jpg"), "--pairs", "20", "--max-time", "1ms", "--json"});
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["rounds"], 20);
  EXPECT_EQ(json["settled"], false);
  EXPECT_EQ(json["models"][1]["compute_ratio"]["verdict"], nullptr);
  EXPECT_EQ(json["models"][1]["compute_ratio"]["doubt"], "wide");
}

TEST_F(Compare, TakesSeveralImagesInTurnAndCountsTheirAgreement) {
  Image("a.jpg");
  Image("b.jpg");
  const Outcome outcome = Run({"dense", "knn", "--image", folder_ / "*.jpg", "--image",
                               Image("c.png"), "--pairs", "2", "--max-pairs", "2"});
  EXPECT_THAT(outcome.out, HasSubstr("3 images, 2 rounds"));
  EXPECT_THAT(outcome.out, HasSubstr("0 of 3"));
}

TEST_F(Compare, FailsAsAWholeWhereARequestFails) {
  const Outcome outcome = Run({"dense", "unknown", "--image", Image("a.jpg")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "fovea: model 'unknown' is not loaded: the repository has no model of that name (see "
            "fovea models)\n");
}

TEST_F(FoveaTest, ComparisonOnABusyServerSaysThatItWasBusy) {
  FakeServer server{{.name = "a", .batch_size = 3}, {.name = "b"}};
  const Outcome outcome = Fovea({"--server", server.address(), "compare", "a", "b", "--pairs", "1",
                                 "--image", Image("a.jpg")});
  EXPECT_THAT(outcome.out, HasSubstr("batches of up to 3 images"));
}

}  // namespace
}  // namespace fovea::client
