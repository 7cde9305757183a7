#include "server/tracing/otlp/otlp_sink.h"

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "proto/google/rpc/error_details.pb.h"
#include "proto/google/rpc/status.pb.h"
#include "proto/opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/core/mutex.h"

namespace fovea {
namespace {

namespace collector = opentelemetry::proto::collector::trace::v1;
using Outcome = ExportResult::Outcome;

class FakeService final : public collector::TraceService::Service {
 public:
  grpc::Status Export(grpc::ServerContext* context,
                      const collector::ExportTraceServiceRequest* sent,
                      collector::ExportTraceServiceResponse* response) override {
    MutexLock lock(mutex_);
    if (hangs_) {
      came_ = true;
      changed_.NotifyAll();
      while (!context->IsCancelled()) {
        changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
      }
    }
    last_ = *sent;
    response->mutable_partial_success()->set_rejected_spans(rejected_);
    return answer_;
  }

  void Answer(const grpc::Status& status, int64_t rejected = 0) {
    MutexLock lock(mutex_);
    answer_ = status;
    rejected_ = rejected;
  }
  void Hang() {
    MutexLock lock(mutex_);
    hangs_ = true;
  }
  void AwaitCall() {
    MutexLock lock(mutex_);
    while (!came_) changed_.Wait(mutex_);
  }
  collector::ExportTraceServiceRequest last() {
    MutexLock lock(mutex_);
    return last_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  grpc::Status answer_ ABSL_GUARDED_BY(mutex_);
  int64_t rejected_ ABSL_GUARDED_BY(mutex_) = 0;
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false, came_ ABSL_GUARDED_BY(mutex_) = false;
  collector::ExportTraceServiceRequest last_ ABSL_GUARDED_BY(mutex_);
};

class OtlpSinkTest : public ::testing::Test {
 protected:
  OtlpSinkTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    sink_ = MakeOtlpSink({.endpoint = "127.0.0.1:" + std::to_string(port),
                          .issuers = "",
                          .version = "1.2.3",
                          .resource = {{"service.name", "test"}}});
  }

  ExportResult Export(Nanos timeout = 30 * kSecond) {
    const std::vector<Span> spans(2);
    return sink_->Export(spans, timeout);
  }
  Outcome OutcomeOf(const grpc::Status& status) {
    service_.Answer(status);
    return Export().outcome;
  }

  FakeService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<SpanSink> sink_;
};

TEST_F(OtlpSinkTest, ASpanIsOnTheWireAsItIs) {
  Span span;
  span.trace = {0x0102030405060708, 0x090a0b0c0d0e0f10};
  span.id = 0x1112131415161718;
  span.parent = 0x2122232425262728;
  span.remote_parent = true;
  span.state = "a=b";
  span.name = "decode";
  span.kind = Span::Kind::kServer;
  span.start = 5;
  span.end = 7;
  span.attributes = {{"text", std::string("\xff\n")}, {"number", int64_t{-3}}};
  span.failed = true;
  span.why = "image.truncated";
  EXPECT_EQ(sink_->Export(std::vector<Span>{span}, 30 * kSecond).outcome, Outcome::kTaken);
  const auto sent = service_.last();
  ASSERT_EQ(sent.resource_spans_size(), 1);
  EXPECT_EQ(sent.resource_spans(0).resource().attributes(0).value().string_value(), "test");
  EXPECT_EQ(sent.resource_spans(0).scope_spans(0).scope().version(), "1.2.3");
  const auto& one = sent.resource_spans(0).scope_spans(0).spans(0);
  EXPECT_EQ(one.trace_id(), "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
  EXPECT_EQ(one.span_id(), "\x11\x12\x13\x14\x15\x16\x17\x18");
  EXPECT_EQ(one.parent_span_id(), "\x21\x22\x23\x24\x25\x26\x27\x28");
  EXPECT_EQ(one.trace_state(), "a=b");
  EXPECT_EQ(one.flags(), 0x301u);
  EXPECT_EQ(one.kind(), 2);
  EXPECT_EQ(one.start_time_unix_nano(), 5u);
  EXPECT_EQ(one.end_time_unix_nano(), 7u);
  EXPECT_EQ(one.attributes(0).value().string_value(), "\\xff\\x0a");
  EXPECT_EQ(one.attributes(1).value().int_value(), -3);
  EXPECT_EQ(one.status().code(), 2);
  EXPECT_EQ(one.status().message(), "image.truncated");
}

// OTLP's table of codes.
TEST_F(OtlpSinkTest, OnlyTheCodesThatOtlpNamesAreTriedAgain) {
  for (int code = 1; code <= 16; ++code) {
    const bool again =
        code == 1 || code == 4 || code == 10 || code == 11 || code == 14 || code == 15;
    EXPECT_EQ(OutcomeOf(grpc::Status(static_cast<grpc::StatusCode>(code), "no")),
              again ? Outcome::kTryAgain : Outcome::kRefused)
        << code;
  }
}

TEST_F(OtlpSinkTest, AnExhaustedCollectorIsTriedAgainWhereItSaysWhen) {
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(7);
  info.mutable_retry_delay()->set_nanos(500'000'000);
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  service_.Answer(grpc::Status(grpc::RESOURCE_EXHAUSTED, "slow down", details.SerializeAsString()));
  const ExportResult result = Export();
  EXPECT_EQ(result.outcome, Outcome::kTryAgain);
  EXPECT_EQ(result.retry_after, 7 * kSecond + 500 * kMillisecond);
  EXPECT_EQ(OutcomeOf(grpc::Status(grpc::RESOURCE_EXHAUSTED, "slow down", "junk")),
            Outcome::kRefused);
}

TEST_F(OtlpSinkTest, WhatACollectorTookNotIsTold) {
  service_.Answer(grpc::Status::OK, 1);
  EXPECT_EQ(Export().rejected, 1);
}

TEST_F(OtlpSinkTest, ACollectorThatHangsHasTheTimeout) {
  service_.Hang();
  EXPECT_EQ(Export(50 * kMillisecond).outcome, Outcome::kTryAgain);
}

TEST_F(OtlpSinkTest, CancelEndsWhatIsUnderWayAndWhatComes) {
  service_.Hang();
  std::thread cancelling([this] {
    service_.AwaitCall();
    sink_->Cancel();
  });
  EXPECT_NE(Export(600 * kSecond).outcome, Outcome::kTaken);
  cancelling.join();
  EXPECT_EQ(Export(600 * kSecond).outcome, Outcome::kRefused);
}

TEST(EndpointTest, IsAHostAndAPort) {
  for (const char* good : {"collector:4317", "127.0.0.1:1", "[::1]:65535", "a.b.c:4317"}) {
    EXPECT_TRUE(CheckEndpoint(good).ok()) << good;
  }
  for (const char* bad : {"", "collector", ":4317", "collector:", "collector:0", "collector:65536",
                          "http://collector:4317", "::1:4317", "unix:/tmp/s", "a b:1", "h:x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckEndpoint(bad))) << bad;
  }
}

}  // namespace
}  // namespace fovea
