#include "client/cpp/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Client> ClientOf(const FakeServer& server) {
  auto client = Client::Connect(server.address());
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

TEST(Client, ReturnsClassesMostProbableFirstWithTheReceipt) {
  FakeServer server{{.name = "shapes", .attention = "knn:k=16", .batch_size = 2}};
  const auto answer = ClientOf(server)->Classify(
      {.model = {"shapes"}, .images = {"an image", "another"}, .top_k = 2, .id = "7"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->model.version, "1");
  EXPECT_EQ(answer->id, "7");
  EXPECT_EQ(answer->attention, "knn:k=16");
  ASSERT_EQ(answer->images.size(), 2u);
  ASSERT_EQ(answer->images[1].size(), 2u);
  EXPECT_EQ(answer->images[1][0].label, "circle");
  EXPECT_EQ(answer->images[1][0].confidence, 0.75f);
  EXPECT_EQ(answer->images[1][0].logit, 3.0f);
  EXPECT_EQ(answer->receipt.batch_size, 2);
  EXPECT_EQ(answer->receipt.batch_threads, 2);
  EXPECT_EQ(answer->receipt.batch_peak_bytes, 3 << 20);
  EXPECT_EQ(answer->receipt.compute(), absl::Milliseconds(2));
  EXPECT_EQ(answer->receipt.total(), absl::Microseconds(2750));
  EXPECT_GT(answer->round_trip, absl::ZeroDuration());
}

TEST(Client, SendsAnExperimentsKeyAndReadsTheArm) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server);
  const CallOptions keyed{.experiment_key = "caller 7"};
  const auto classified = client->Classify({.model = {"shapes"}, .images = {"an image"}}, keyed);
  ASSERT_TRUE(classified.ok()) << classified.status();
  EXPECT_EQ(classified->receipt.experiment, "night");
  EXPECT_EQ(classified->receipt.experiment_arm, "shapes/caller 7");
  const auto detected = client->Detect({.model = {"shapes"}, .images = {"an image"}}, keyed);
  ASSERT_TRUE(detected.ok()) << detected.status();
  EXPECT_EQ(detected->receipt.experiment_arm, "shapes/caller 7");
  const auto inferred = client->Infer({.model = {"shapes"}}, keyed);
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(inferred->receipt->experiment, "night");
  EXPECT_EQ(inferred->receipt->experiment_arm, "shapes/caller 7");
  const auto without = client->Classify({.model = {"shapes"}, .images = {"an image"}});
  EXPECT_EQ(without->receipt.experiment, "");
}

TEST(Client, RefusesAnExperimentsKeyThatCannotBeSent) {
  FakeServer server{{.name = "shapes"}};
  for (const char* key : {"line\nbreak", "caf\xc3\xa9", "\x7f"}) {
    const auto answer = ClientOf(server)->Classify({.model = {"shapes"}, .images = {"an image"}},
                                                   {.experiment_key = key});
    EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << key;
  }
  EXPECT_TRUE(server.classified().empty());
}

TEST(Client, PassesOnTheServersCodeSentenceAndReason) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server);
  const absl::Status bad = client->Classify({.model = {"shapes"}, .images = {"bad"}}).status();
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bad.message(), "the image is no JPEG, PNG or WebP file");
  EXPECT_EQ(ReasonOf(bad), "image.unknown_format");
  const absl::Status unknown = client->Model({"unknown"}).status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_EQ(ReasonOf(unknown), "");
}

TEST(Client, ABusyServerIsNotAnUnreachableOne) {
  FakeServer server{{.name = "shapes"}};
  const absl::Status busy =
      ClientOf(server)->Classify({.model = {"shapes"}, .images = {"busy"}}).status();
  EXPECT_TRUE(absl::IsUnavailable(busy));
  EXPECT_EQ(busy.message(), "the queue is full");
  EXPECT_FALSE(IsUnreachable(busy));
}

TEST(Client, FailsAtOnceWhereNobodyListens) {
  std::string address;
  { address = FakeServer{}.address(); }
  const absl::Time start = absl::Now();
  const absl::Status refused = Client::Connect(address).status();
  EXPECT_TRUE(IsUnreachable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(address));
  EXPECT_LT(absl::Now() - start, absl::Seconds(4));  // of a timeout of 5
}

TEST(Client, SaysUnreachableWhenTheServerGoesAway) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server);
  ASSERT_TRUE(client->Health().ok());
  server.Stop();
  const absl::Status gone = client->Classify({.model = {"shapes"}, .images = {"x"}}).status();
  EXPECT_TRUE(IsUnreachable(gone)) << gone;
}

TEST(Client, EndsACallAtItsDeadline) {
  FakeServer server{{.name = "shapes"}};
  const absl::Status late =
      ClientOf(server)
          ->Classify({.model = {"shapes"}, .images = {"slow"}}, {.timeout = absl::Milliseconds(50)})
          .status();
  EXPECT_EQ(late, absl::DeadlineExceededError("no answer within 50ms"));
}

TEST(Client, StoppedEndsTheCallsThatRunAndMakesNoMore) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server);
  std::jthread stopper([&] {
    while (server.classified().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    client->Stop();
  });
  const absl::Status ended = client->Classify({.model = {"shapes"}, .images = {"slow"}}).status();
  EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
  EXPECT_TRUE(absl::IsCancelled(client->Health().status()));
}

TEST(Client, RefusesWhatIsNoAddress) {
  for (const char* wrong : {"", "localhost", "localhost:", ":8001", "localhost:port", "localhost:0",
                            "localhost:65536", "::1:8001", "http://localhost:8001",
                            "https://localhost:8001/", "localhost:8001/", "/run/fovea.sock"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Client::Connect(wrong).status())) << wrong;
  }
  EXPECT_EQ(Client::Connect("http://localhost:8001").status().message(),
            "'http://localhost:8001' is no server address: write HOST:PORT without 'http://', for "
            "example 127.0.0.1:8001");
}

TEST(Client, ListsLoadedAndUnloadedModels) {
  FakeServer server{
      {.name = "broken", .version = "", .state = "UNAVAILABLE", .reason = "no weights"},
      {.name = "noise", .untrained = true},
      {.name = "shapes"}};
  const auto models = ClientOf(server)->Models();
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 3u);
  EXPECT_FALSE((*models)[0].ready());
  EXPECT_EQ((*models)[0].reason, "no weights");
  EXPECT_TRUE((*models)[1].untrained);
  const ModelInfo& shapes = (*models)[2];
  EXPECT_TRUE(shapes.ready());
  EXPECT_FALSE(shapes.untrained);
  EXPECT_EQ(shapes.version, "1");
  EXPECT_EQ(shapes.task, "classification");
  EXPECT_EQ(shapes.attention, "dense");
  EXPECT_EQ(shapes.backbone, "vit_demo_patch8_64");
  EXPECT_EQ(shapes.precision, "FP32");
  ASSERT_EQ(shapes.inputs.size(), 1u);
  EXPECT_THAT(shapes.inputs[0].shape, ElementsAre(-1, 3, 64, 64));
  EXPECT_THAT(shapes.outputs[0].shape, ElementsAre(-1, 3));
}

TEST(Client, InfersWithAnyTensors) {
  FakeServer server{{.name = "shapes"}};
  const auto answer = ClientOf(server)->Infer(
      {.model = {"shapes"},
       .inputs = {FloatTensor("pixels", {1, 2}, {1, 2}), StringTensor("image", {"jpeg"})},
       .id = "9"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->id, "9");
  ASSERT_EQ(answer->outputs.size(), 2u);
  EXPECT_THAT(Floats(answer->outputs[0]).value(), ElementsAre(1, 2));
  EXPECT_THAT(Strings(answer->outputs[1]).value(), ElementsAre("jpeg"));
  ASSERT_TRUE(answer->receipt.has_value());
  EXPECT_EQ(answer->receipt->batch_size, 4);
  EXPECT_EQ(answer->receipt->batch_threads, 1);
  EXPECT_EQ(answer->receipt->total(), absl::Milliseconds(7));
}

TEST(Client, ReadsStatistics) {
  FakeServer server{{.name = "shapes"}, {.name = "other"}};
  const auto statistics = ClientOf(server)->Statistics({"shapes"});
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  ASSERT_EQ(statistics->size(), 1u);
  const ModelStatistics& shapes = statistics->front();
  EXPECT_EQ(shapes.images, 120u);
  EXPECT_EQ(shapes.batches, 48u);
  EXPECT_EQ(shapes.success.mean(), absl::Milliseconds(10));
  EXPECT_EQ(shapes.compute_infer.mean(), absl::Milliseconds(8));
  EXPECT_EQ(shapes.compute_input.mean(), absl::ZeroDuration());
  EXPECT_EQ(shapes.memory_bytes.at("CPU"), uint64_t{22} << 20);
  EXPECT_EQ(shapes.last_inference, absl::InfinitePast());
}

TEST(Client, LoadsAndUnloads) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server);
  EXPECT_TRUE(client->Load("shapes").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(client->Load("broken")));
  EXPECT_TRUE(client->Unload("shapes").ok());
  EXPECT_TRUE(absl::IsNotFound(client->Unload("unknown")));
}

TEST(Client, AsksForHealth) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server);
  EXPECT_TRUE(client->Health()->live);
  EXPECT_TRUE(client->Health()->ready);
  EXPECT_TRUE(client->Ready({"shapes"}).value());
  EXPECT_FALSE(client->Ready({"unknown"}).value());
  FakeServer empty{};
  EXPECT_FALSE(ClientOf(empty)->Health()->ready);
}

}  // namespace
}  // namespace fovea::client
