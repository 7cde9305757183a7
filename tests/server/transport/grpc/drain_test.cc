// How a server ends.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/status.h"
#include "proto/grpc/reflection/v1/reflection.grpc.pb.h"
#include "server/core/testing/watched_thread.h"
#include "tests/server/transport/grpc/raw_http2.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

using inference::ModelInferResponse;
using ::testing::HasSubstr;

class Drain : public GrpcServerTest {
 protected:
  grpc::Status Infer() {
    ModelInferResponse response;
    grpc::ClientContext context;
    return stub_->ModelInfer(&context, SmallRequest(), &response);
  }
  // Asks for a model that is not there: who comes too early is not held.
  bool RefusesRequests() {
    inference::ModelInferRequest request = SmallRequest();
    request.set_model_name("nobody");
    ModelInferResponse response;
    grpc::ClientContext context;
    return stub_->ModelInfer(&context, request, &response).error_code() == grpc::UNAVAILABLE;
  }
};

TEST_F(Drain, AnIdleServerEndsAtOnce) {
  const Nanos began = SteadyClock().Now();
  EXPECT_EQ(server_->Shutdown(30 * kSecond), 0);
  EXPECT_LT(SteadyClock().Now() - began, 10 * kSecond);
  EXPECT_EQ(Infer().error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(server_->Shutdown(30 * kSecond), 0) << "again is nothing";
}

TEST_F(Drain, RequestsUnderWayAreAnsweredAndNewOnesRefused) {
  inference_.Hold();
  grpc::Status first;
  std::thread caller([&] { first = Infer(); });
  FakeInference::Held held = inference_.Take();
  int cut_off = -1;
  std::thread shutdown([&] { cut_off = server_->Shutdown(30 * kSecond); });
  EXPECT_TRUE(Eventually([&] {
    grpc::health::v1::HealthCheckResponse response;
    grpc::ClientContext context;
    return health_->Check(&context, {}, &response).ok() &&
           response.status() == grpc::health::v1::HealthCheckResponse::NOT_SERVING;
  }));
  EXPECT_TRUE(Eventually([this] { return RefusesRequests(); }));
  held.Answer();
  caller.join();
  shutdown.join();
  EXPECT_TRUE(first.ok()) << first.error_message();
  EXPECT_EQ(cut_off, 0);
}

TEST_F(Drain, RequestsThatDoNotEndInTimeAreGivenUpAndCounted) {
  inference_.Hold();
  grpc::Status statuses[2];
  std::thread callers[2];
  for (int i = 0; i < 2; ++i)
    callers[i] = std::thread([this, &statuses, i] { statuses[i] = Infer(); });
  FakeInference::Held held[2] = {inference_.Take(), inference_.Take()};
  std::atomic<int> cancelled = 0;
  for (FakeInference::Held& one : held) {
    one.request->cancellation->OnCancel([&one, &cancelled] {
      ++cancelled;
      one.Fail(Cancelled("queue.cancelled", "cancelled"));
    });
  }
  EXPECT_EQ(server_->Shutdown(50 * kMillisecond), 2);
  EXPECT_EQ(cancelled, 2);
  for (int i = 0; i < 2; ++i) {
    callers[i].join();
    EXPECT_EQ(statuses[i].error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(statuses[i].error_message(),
              "the server stopped before the request was done: try another one");
  }
}

TEST_F(Drain, AStreamsRequestsThatDoNotEndInTimeAreToldSo) {
  inference_.Hold();
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(SmallRequest("late")));
  FakeInference::Held held = inference_.Take();
  held.request->cancellation->OnCancel(
      [&held] { held.Fail(Cancelled("queue.cancelled", "cancelled")); });
  // (gRPC's client lets go of what it was not asked for by the time that the connection ends.)
  const WatchedThread reader([&] {
    inference::ModelStreamInferResponse answer;
    EXPECT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.error_message(),
              "the server stopped before the request was done: try another one [UNAVAILABLE "
              "server.drain_timeout]");
    EXPECT_EQ(answer.infer_response().id(), "late");
    EXPECT_FALSE(stream->Read(&answer));
    EXPECT_EQ(stream->Finish().error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(ReasonTold(context), "server.draining");
  });
  EXPECT_TRUE(reader.WaitsBeforeItEnds());
  EXPECT_EQ(server_->Shutdown(50 * kMillisecond), 1);
}

TEST_F(Drain, OpenStreamsThatWaitForNothingEndUnavailable) {
  for (int round = 0; round < 20; ++round) {
    grpc::ClientContext contexts[3];
    const auto watch = health_->Watch(&contexts[0], {});
    grpc::health::v1::HealthCheckResponse serving;
    ASSERT_TRUE(watch->Read(&serving));
    const auto reflection =
        grpc::reflection::v1::ServerReflection::NewStub(channel_)->ServerReflectionInfo(
            &contexts[1]);
    grpc::reflection::v1::ServerReflectionRequest question;
    question.set_list_services("");
    ASSERT_TRUE(reflection->Write(question));
    grpc::reflection::v1::ServerReflectionResponse services;
    ASSERT_TRUE(reflection->Read(&services));
    const auto infer = stub_->ModelStreamInfer(&contexts[2]);
    ASSERT_TRUE(infer->Write(SmallRequest()));
    inference::ModelStreamInferResponse answer;
    ASSERT_TRUE(infer->Read(&answer));
    std::thread readers[] = {
        std::thread([&] {
          while (watch->Read(&serving)) {
          }
          EXPECT_EQ(watch->Finish().error_code(), grpc::UNAVAILABLE) << "in round " << round;
          EXPECT_EQ(ReasonTold(contexts[0]), "server.draining") << "in round " << round;
        }),
        std::thread([&] {
          EXPECT_FALSE(reflection->Read(&services));
          EXPECT_EQ(reflection->Finish().error_code(), grpc::UNAVAILABLE) << "in round " << round;
        }),
        std::thread([&] {
          EXPECT_FALSE(infer->Read(&answer));
          EXPECT_EQ(infer->Finish().error_code(), grpc::UNAVAILABLE) << "in round " << round;
          EXPECT_EQ(ReasonTold(contexts[2]), "server.draining") << "in round " << round;
        })};
    EXPECT_EQ(server_->Shutdown(30 * kSecond), 0);
    for (std::thread& reader : readers) reader.join();
    Start();
  }
}

// A caller whose message was on its way when the last answer left.
TEST_F(Drain, ARequestThatArrivesAtTheEndHearsWhyItIsRefused) {
  Start({.port = 0}, {.quiet_ms = 5'000, .max_quiet_wait_ms = 10'000});
  inference_.Hold();
  std::thread first([this] { EXPECT_TRUE(Infer().ok()); });
  FakeInference::Held held = inference_.Take();
  RawConnection connection(server_->port());
  const std::string message = CallMessage(SmallRequest().SerializeAsString(), false, 1);
  connection.Send(Http2Preface() + CallHeaders("/inference.GRPCInferenceService/ModelInfer", 1) +
                  message.substr(0, message.size() - 1));
  std::thread shutdown([this] { EXPECT_EQ(server_->Shutdown(30 * kSecond), 0); });
  EXPECT_TRUE(Eventually([this] { return RefusesRequests(); }));
  held.Answer();
  first.join();
  connection.Send(message.substr(message.size() - 1));
  EXPECT_THAT(connection.ReceiveUntil("server.draining"), HasSubstr("server.draining"));
  shutdown.join();
}

// gRPC cancels, without a word, what arrives while it shuts down: busy callers met that at every
// few restarts.
TEST_F(Drain, NoCallerIsToldThatItCancelledByItself) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> stop = false;
    std::atomic<int> answered = 0, unavailable = 0, others = 0;
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&, stub = inference::GRPCInferenceService::NewStub(NewChannel())] {
        while (!stop) {
          ModelInferResponse response;
          grpc::ClientContext context;
          const grpc::Status status = stub->ModelInfer(&context, SmallRequest(), &response);
          ++(status.ok()                                ? answered
             : status.error_code() == grpc::UNAVAILABLE ? unavailable
                                                        : others);
        }
      });
    }
    EXPECT_TRUE(Eventually([&] { return answered > 100; }));
    EXPECT_EQ(server_->Shutdown(30 * kSecond), 0);
    EXPECT_TRUE(Eventually([&] { return unavailable > 0; }));
    stop = true;
    for (std::thread& caller : callers) caller.join();
    ASSERT_EQ(others, 0) << "in round " << round;
    Start();
  }
}

// Docs/faults.md, row 37: a caller whose window lets nothing through holds an answer for ever.
TEST_F(Drain, AnAnswerThatNobodyReadsDoesNotHoldUpTheEnd) {
  inference_.Hold();
  constexpr int kSettings = 4;
  RawConnection connection(server_->port());
  // SETTINGS_INITIAL_WINDOW_SIZE: 0.
  const std::string no_window("\0\x04\0\0\0\0", 6);
  connection.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Http2Frame(kSettings, 0, 0, no_window) +
                  CallHeaders("/inference.GRPCInferenceService/ModelInfer", 1) +
                  CallMessage(SmallRequest().SerializeAsString(), false, 1));
  inference_.Take().Answer();
  const Nanos start = SteadyClock().Now();
  constexpr Nanos kTimeout = 60 * kSecond;
  EXPECT_EQ(server_->Shutdown(kTimeout), 0) << "the request was answered";
  EXPECT_LT(SteadyClock().Now() - start, kTimeout);
}

TEST_F(Drain, AModelThatIsBeingLoadedIsWaitedFor) {
  catalog_.BlockLoads();
  grpc::Status loaded;
  std::thread caller([&] {
    inference::RepositoryModelLoadRequest request;
    request.set_model_name("vit");
    inference::RepositoryModelLoadResponse response;
    grpc::ClientContext context;
    loaded = stub_->RepositoryModelLoad(&context, request, &response);
  });
  EXPECT_TRUE(Eventually([this] { return catalog_.loads_begun() == 1; }));
  std::atomic<bool> ended = false;
  std::thread shutdown([&] {
    server_->Shutdown(0);
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(ended);
  catalog_.UnblockLoads();
  shutdown.join();
  caller.join();
  EXPECT_EQ(loaded.error_code(), grpc::UNAVAILABLE) << "its connection did not wait";
}

TEST_F(Drain, TheCatalogMayOutliveTheServer) {
  server_.reset();
  EXPECT_TRUE(catalog_.Unload("vit").ok());  // tells the listeners
}

}  // namespace
}  // namespace fovea
