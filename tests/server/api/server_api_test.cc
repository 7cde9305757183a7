// The api without a protocol: a caller in the same process.
#include "server/api/server_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/testing/notification.h"
#include "tests/server/api/fakes.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// One request of a caller who shares the server's memory: nothing is parsed, nothing encoded.
class InProcessCall {
 public:
  InProcessCall(ServerApi& api, Nanos deadline = kNever)
      : call_(api, {.protocol = Protocol::kHttp, .principal = "test"}, "Infer", api.clock().Now(),
              deadline) {}

  void Start(const std::string& model, const std::string& id, uint64_t priority = 0,
             uint64_t timeout_us = 0) {
    call_.Run(
        /*received_bytes=*/8,
        [&](InferenceRequest& request, CheckModel check_model) -> absl::Status {
          request.id = id;
          request.model_name = model;
          request.priority = priority;
          request.timeout_us = timeout_us;
          FOVEA_RETURN_IF_ERROR(check_model(request));
          read_tensors_ = true;
          FOVEA_RETURN_IF_ERROR(request.TakeMemory(1000));
          request.input = NamedTensors{{.name = "pixel_values",
                                        .type = DataType::kFp32,
                                        .shape = {2},
                                        .data = ScatteredBytes::Copy("12345678")}};
          return absl::OkStatus();
        },
        [this](InferenceResponse& response) -> absl::StatusOr<int64_t> {
          response.receipt.stages.EndStage(Stage::kEncode, SteadyClock().Now());
          response_ = std::move(response);
          return 8;
        },
        [this](const absl::Status& status, const std::string& answered) {
          call_.Answered();
          id_ = answered;
          status_ = status;
          done_.Notify();
        });
  }
  // As it goes when the server answers at once or is made to.
  const absl::Status& Await() {
    done_.Wait();
    return status_;
  }
  void Release() { call_.Release(); }
  void Cancel() { call_.Cancel(); }
  const InferenceResponse& response() const { return response_; }
  const std::string& id() const { return id_; }
  bool read_tensors() const { return read_tensors_; }

 private:
  bool read_tensors_ = false;
  InferenceCall call_;
  InferenceResponse response_;
  absl::Status status_;
  std::string id_;
  Notification done_;
};

template <typename Answer>
class Waiting {
 public:
  WaitingCaller<Answer> Caller() {
    return {.gone = [this] { return gone_.load(); },
            .done =
                [this](Answer answer) {
                  answer_.emplace(std::move(answer));
                  done_.Notify();
                }};
  }
  Answer Await() {
    done_.Wait();
    return *answer_;
  }
  void Leave() { gone_ = true; }

 private:
  std::atomic<bool> gone_ = false;
  std::optional<Answer> answer_;
  Notification done_;
};

class ServerApiTest : public ::testing::Test {
 protected:
  ServerApiTest() {
    auto api = ServerApi::Create({.server_version = "1.2.3", .request_bytes = 1 << 20}, catalog_,
                                 catalog_, &observer_, SteadyClock());
    EXPECT_TRUE(api.ok()) << api.status();
    api_ = *std::move(api);
    api_->SetServing(true);
  }

  FakeInference inference_;
  FakeCatalog catalog_{inference_};
  RecordingObserver observer_;
  std::unique_ptr<ServerApi> api_;
};

TEST_F(ServerApiTest, ARequestIsAnsweredAndTold) {
  InProcessCall call(*api_);
  call.Start("vit", "first");
  ASSERT_TRUE(call.Await().ok());
  EXPECT_EQ(call.id(), "first");
  const auto& outputs = std::get<TensorResults>(call.response().results);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].data, "12345678");
  const std::vector<AnsweredRequest> told = observer_.requests();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(observer_.arrived(), 1);
  EXPECT_EQ(told[0].protocol, Protocol::kHttp);
  EXPECT_EQ(told[0].method, "Infer");
  EXPECT_EQ(told[0].principal, "test");
  EXPECT_EQ(told[0].model->view()->name, "vit");
  EXPECT_EQ(told[0].code, absl::StatusCode::kOk);
  EXPECT_EQ(told[0].received_bytes, 8);
  EXPECT_EQ(told[0].sent_bytes, 8);
}

TEST_F(ServerApiTest, AnUnknownModelIsRefusedBeforeItsTensorsAreRead) {
  inference_.Hold();
  InProcessCall call(*api_);
  call.Start("nobody", "first");
  EXPECT_EQ(ReasonOf(call.Await()), "model.not_found");
  EXPECT_EQ(call.id(), "first");
  EXPECT_FALSE(call.read_tensors());
  EXPECT_EQ(inference_.held(), 0u);
  const std::vector<AnsweredRequest> told = observer_.requests();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].model, nullptr);
  EXPECT_EQ(told[0].code, absl::StatusCode::kNotFound);
}

TEST_F(ServerApiTest, AnAnswerHoldsItsMemoryUntilItHasLeft) {
  inference_.Hold();
  InProcessCall call(*api_);
  call.Start("vit", "first");
  EXPECT_EQ(api_->memory().held(), limits::kRequestRecordBytes + 1000);
  inference_.Take().Answer();
  ASSERT_TRUE(call.Await().ok());
  EXPECT_EQ(api_->memory().held(), limits::kRequestRecordBytes + 8) << "of the answer";
  call.Release();
  EXPECT_EQ(api_->memory().held(), 0);
}

TEST_F(ServerApiTest, AResultThatComesAfterTheDeadlineIsNone) {
  inference_.Hold();
  InProcessCall call(*api_, /*deadline=*/SteadyClock().Now());
  call.Start("vit", "late");
  inference_.Take().Answer();
  EXPECT_EQ(ReasonOf(call.Await()), "request.deadline_passed");
}

// docs/faults.md, row 67.
TEST_F(ServerApiTest, ARequestsTimeoutIsADeadlineWhereItsLevelRejectsWhatHasTimedOut) {
  constexpr Nanos kLongest = limits::kMaxTimeoutSeconds * kSecond;
  struct Case {
    uint64_t priority, timeout_us;
    Nanos limit;  // of the answer, from the arrival; kNever: the caller's own deadline alone
  };
  const Case cases[] = {
      {0, 5'000, 5 * kMillisecond},  // the default level rejects
      {2, 5'000, 5 * kMillisecond},
      {9, 5'000, 5 * kMillisecond},  // no such level: the default
      {2, 0, kNever},
      {2, ~uint64_t{0}, kLongest},
      {1, 5'000, kNever},  // allows none of a request's own
      {3, 5'000, kNever},  // delays
  };
  inference_.Hold();
  for (const Case& one : cases) {
    for (const Nanos own : {kNever, SteadyClock().Now() + 10 * kLongest, Nanos{1}}) {
      SCOPED_TRACE(testing::Message() << "priority " << one.priority << ", " << one.timeout_us
                                      << ", own deadline " << own);
      InProcessCall call(*api_, own);
      call.Start("vit", "one", one.priority, one.timeout_us);
      FakeInference::Held held = inference_.Take();
      const Nanos arrival = held.request->stages.start();
      EXPECT_EQ(held.request->deadline,
                one.limit == kNever ? own : std::min(own, arrival + one.limit));
      EXPECT_EQ(held.request->timeout_us, one.timeout_us);
      held.Answer();
      call.Await();
    }
  }
}

TEST_F(ServerApiTest, ACancelledCallEndsItsRequest) {
  inference_.Hold();
  InProcessCall call(*api_);
  call.Start("vit", "first");
  FakeInference::Held held = inference_.Take();
  held.request->cancellation->OnCancel(
      [&held] { held.Fail(Cancelled("queue.cancelled", "cancelled")); });
  call.Cancel();
  EXPECT_EQ(ReasonOf(call.Await()), "queue.cancelled");
  EXPECT_EQ(observer_.requests().at(0).code, absl::StatusCode::kCancelled);
}

TEST_F(ServerApiTest, ACallThatIsCancelledByItsDeadlineIsToldAsLate) {
  inference_.Hold();
  InProcessCall call(*api_, /*deadline=*/SteadyClock().Now());
  call.Start("vit", "late");
  inference_.Take().Fail(Cancelled("queue.cancelled", "cancelled"));
  call.Await();
  EXPECT_EQ(observer_.requests().at(0).code, absl::StatusCode::kDeadlineExceeded);
}

// Notes what a drain asks of a protocol.
class RecordingTransport final : public Transport {
 public:
  void DrainStreams() override { calls.push_back("drain streams"); }
  void AwaitStreams(Nanos) override { calls.push_back("await streams"); }
  void StopListening() override { calls.push_back("stop listening"); }
  void Close() override { calls.push_back("close"); }
  std::vector<std::string> calls;
};

TEST_F(ServerApiTest, ADrainEndsEveryTransportStepByStepAndOnce) {
  RecordingTransport first, second;
  Transport* const transports[] = {&first, &second};
  EXPECT_EQ(api_->Drain(transports, kSecond), 0);
  EXPECT_EQ(api_->Drain(transports, kSecond), 0) << "again is nothing";
  for (const RecordingTransport* transport : {&first, &second}) {
    EXPECT_THAT(transport->calls,
                ElementsAre("drain streams", "await streams", "stop listening", "close"));
  }
}

TEST_F(ServerApiTest, ADrainingServerLoadsNothing) {
  EXPECT_EQ(api_->Drain({}, 0), 0);
  Waiting<absl::Status> load;
  api_->LoadModel({.model_name = "vit"}, load.Caller());
  EXPECT_EQ(ReasonOf(load.Await()), "server.draining");
}

TEST_F(ServerApiTest, ManyRequestsOfOneCallerAreUnderWayAtATime) {
  inference_.Hold();
  std::vector<std::unique_ptr<InProcessCall>> stream;
  for (int i = 0; i < 3; ++i) {
    stream.push_back(std::make_unique<InProcessCall>(*api_));
    stream.back()->Start("vit", std::to_string(i));
  }
  for (int i = 0; i < 3; ++i) inference_.Take().Answer();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(stream[i]->Await().ok());
    EXPECT_EQ(stream[i]->id(), std::to_string(i));
  }
}

TEST_F(ServerApiTest, ADrainRefusesNewRequestsAndWaitsForThoseUnderWay) {
  inference_.Hold();
  InProcessCall under_way(*api_);
  under_way.Start("vit", "first");
  FakeInference::Held held = inference_.Take();
  std::thread drain([this] { EXPECT_EQ(api_->Drain({}, 60 * kSecond), 0); });
  while (!api_->gate().closed()) std::this_thread::yield();
  EXPECT_FALSE(api_->serving());
  InProcessCall late(*api_);
  late.Start("vit", "second");
  EXPECT_EQ(ReasonOf(late.Await()), "server.draining");
  held.Answer();
  EXPECT_TRUE(under_way.Await().ok());
  under_way.Release();
  drain.join();
}

TEST_F(ServerApiTest, AHurriedDrainWaitsForNobodyToReadAnswers) {
  InProcessCall unread(*api_);
  unread.Start("vit", "first");
  EXPECT_TRUE(unread.Await().ok());
  const Nanos began = SteadyClock().Now();
  api_->HurryDrain(began);
  EXPECT_EQ(api_->Drain({}, 60 * kSecond), 0);
  EXPECT_LT(SteadyClock().Now() - began, limits::kUnreadAnswerSeconds * kSecond);
  unread.Release();
}

TEST_F(ServerApiTest, ARequestThatADrainGivesUpIsToldSo) {
  inference_.Hold();
  InProcessCall call(*api_);
  call.Start("vit", "first");
  FakeInference::Held held = inference_.Take();
  held.request->cancellation->OnCancel(
      [&held] { held.Fail(Cancelled("queue.cancelled", "cancelled")); });
  std::thread reader([&call] {
    EXPECT_EQ(ReasonOf(call.Await()), "server.drain_timeout");
    call.Release();
  });
  EXPECT_EQ(api_->Drain({}, 0), 1);
  reader.join();
}

TEST_F(ServerApiTest, HealthKnowsTheServerAndItsModels) {
  EXPECT_THAT(api_->health().List(), ElementsAre(Pair("", ServingStatus::kServing),
                                                 Pair("model/vit", ServingStatus::kServing),
                                                 Pair("model/vit/1", ServingStatus::kServing)));
  ASSERT_TRUE(catalog_.Unload("vit").ok());
  EXPECT_EQ(api_->health().Get("model/vit"), ServingStatus::kNotServing);
  EXPECT_EQ(api_->health().Get("model/nobody"), ServingStatus::kUnknown);
  api_->SetServing(false);
  EXPECT_EQ(api_->health().Get(""), ServingStatus::kNotServing);
}

TEST_F(ServerApiTest, TellsOfItselfAndItsModels) {
  EXPECT_EQ(api_->Metadata().version, "1.2.3");
  EXPECT_EQ(api_->FindModel("vit", "").value()->name, "vit");
  EXPECT_TRUE(api_->ModelReady("vit", "1").value());
  EXPECT_FALSE(api_->ModelReady("nobody", "").value());
  EXPECT_EQ(ReasonOf(api_->ModelReady("bad/name", "").status()), "model.bad_name");
  EXPECT_EQ(api_->Statistics("", "").value().size(), 1u);
  EXPECT_EQ(ReasonOf(api_->Statistics("bad/name", "").status()), "model.bad_name");
}

TEST_F(ServerApiTest, ListsLoadsAndUnloadsModels) {
  Waiting<ServerApi::RepositoryIndex> all, ready;
  api_->ListRepository({}, all.Caller());
  EXPECT_EQ(all.Await()->size(), 4u);
  api_->ListRepository({.ready_only = true}, ready.Caller());
  EXPECT_EQ(ready.Await()->size(), 1u);

  Waiting<absl::Status> unload, load, no_such_parameter, chosen;
  api_->UnloadModel({.model_name = "vit"}, unload.Caller());
  EXPECT_TRUE(unload.Await().ok());
  api_->LoadModel({.model_name = "vit", .parameters = {{"config", "{}"}}}, load.Caller());
  EXPECT_TRUE(load.Await().ok());
  EXPECT_EQ(catalog_.last_config(), "{}");
  api_->LoadModel({.model_name = "vit", .parameters = {{"config", std::nullopt}}},
                  no_such_parameter.Caller());
  EXPECT_EQ(ReasonOf(no_such_parameter.Await()), "repository.parameter");
  api_->UnloadModel({.repository_name = "mine", .model_name = "vit"}, chosen.Caller());
  EXPECT_EQ(ReasonOf(chosen.Await()), "repository.name");
}

TEST_F(ServerApiTest, OfSentFilesTheLargestCountsTwiceUntilTheyAreWrittenDown) {
  const auto memory = std::make_shared<RequestMemory>(api_->memory());
  LoadCall call{.model_name = "vit",
                .parameters = {{"config", "{}"},
                               {"file:1/model.safetensors", std::nullopt, std::string(2000, 'a')},
                               {"file:2/model.safetensors", std::nullopt, std::string(3000, 'b')}},
                .memory = memory};
  EXPECT_EQ(call.LargestFile(), 3000);
  ASSERT_TRUE(memory->Take(5000 + call.LargestFile()).ok());
  catalog_.BlockLoads();
  Waiting<absl::Status> load;
  api_->LoadModel(std::move(call), load.Caller());
  while (catalog_.loads_begun() == 0) std::this_thread::yield();
  EXPECT_EQ(memory->bytes(), 5000) << "while the model loads";
  catalog_.UnblockLoads();
  EXPECT_TRUE(load.Await().ok());
  EXPECT_EQ(catalog_.last_files().size(), 2u);
}

TEST_F(ServerApiTest, AListingThatHangsHoldsUpNeitherLoadsNorTheEnd) {
  catalog_.BlockIndex();
  Waiting<ServerApi::RepositoryIndex> hanging, gone;
  api_->ListRepository({}, hanging.Caller());
  while (catalog_.indexes_begun() == 0) std::this_thread::yield();
  Waiting<absl::Status> load;
  api_->LoadModel({.model_name = "vit"}, load.Caller());
  EXPECT_TRUE(load.Await().ok());
  EXPECT_EQ(api_->Drain({}, 60 * kSecond), 0);
  EXPECT_EQ(ReasonOf(hanging.Await().status()), "server.draining");
  catalog_.UnblockIndex();
}

TEST_F(ServerApiTest, WorkIsNotBegunForACallerWhoHasGone) {
  catalog_.BlockIndex();
  Waiting<ServerApi::RepositoryIndex> first, second;
  api_->ListRepository({}, first.Caller());
  while (catalog_.indexes_begun() == 0) std::this_thread::yield();
  api_->ListRepository({}, second.Caller());  // waits for the one thread
  second.Leave();
  catalog_.UnblockIndex();
  EXPECT_TRUE(first.Await().ok());
  EXPECT_EQ(ReasonOf(second.Await().status()), "request.cancelled");
  EXPECT_EQ(catalog_.indexes_begun(), 1);
}

}  // namespace
}  // namespace fovea
