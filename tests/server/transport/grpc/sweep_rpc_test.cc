// fovea.v1.ComparisonService/Sweep; Compare streams as it does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "proto/fovea/v1/comparison.grpc.pb.h"
#include "tests/resident_bytes.h"
#include "tests/server/api/fake_sweeps.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;

class SweepRpc : public GrpcServerTest {
 protected:
  SweepRpc() {
    Start({.port = 0}, {.sweeps = &sweeps_});
    comparison_ = v1::ComparisonService::NewStub(channel_);
  }
  static v1::SweepRequest Request() {
    v1::SweepRequest request;
    v1::Variant& variant = *request.add_variants();
    variant.set_model_name("vit");
    variant.set_model_version("2");
    variant.set_attention("knn");
    request.set_over(v1::SweepRequest::K);
    request.add_values("16");
    request.add_values("32");
    return request;
  }
  // The status of a sweep that ends at once.
  grpc::Status Ask(const v1::SweepRequest& request, std::string* reason) {
    grpc::ClientContext context;
    const auto stream = comparison_->Sweep(&context, request);
    v1::SweepResponse response;
    while (stream->Read(&response)) {
    }
    const grpc::Status status = stream->Finish();
    *reason = ReasonTold(context);
    return status;
  }

  FakeSweeps sweeps_;
  std::unique_ptr<v1::ComparisonService::Stub> comparison_;
};

TEST_F(SweepRpc, TellsHowItGoesOnAndLastWhatCameOut) {
  v1::SweepRequest request = Request();
  request.set_image("picture");
  request.set_id("s7");
  request.set_max_time_us(5'000'000);
  grpc::ClientContext context;
  const auto stream = comparison_->Sweep(&context, request);
  EXPECT_EQ(sweeps_.request().variants[0].model_version, "2");
  EXPECT_EQ(sweeps_.request().axis, SweepAxis::kK);
  EXPECT_THAT(sweeps_.request().values, ElementsAre("16", "32"));
  EXPECT_EQ(sweeps_.request().image, "picture");
  EXPECT_EQ(sweeps_.request().max_time, 5 * kSecond);
  EXPECT_EQ(sweeps_.request().rounds, 20);
  EXPECT_GE(server_->api->memory().held(), 7) << "the image, until it is over";
  sweeps_.Tell(3, 20);
  v1::SweepResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.progress().done(), 3);
  sweeps_.Answer(FakeSweeps::Example());
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.sweep().id(), "s1");
  EXPECT_EQ(response.sweep().over(), v1::SweepRequest::K);
  const v1::SweptCurve& curve = response.sweep().curves(0);
  EXPECT_EQ(curve.points(0).compute_estimate_ms().upper(), 2.5);
  EXPECT_EQ(curve.points(1).failure(), "65 keys are too few");
  EXPECT_FALSE(curve.points(1).has_compute_ms());
  EXPECT_EQ(curve.compute_exponent().worst_ratio(), 1.125);
  EXPECT_FALSE(curve.has_attention_exponent());
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return server_->api->memory().held() == 0; }));
}

// Row 88.
TEST_F(SweepRpc, ACallerWhoGoesEndsIt) {
  grpc::ClientContext context;
  const auto stream = comparison_->Sweep(&context, Request());
  sweeps_.request();
  context.TryCancel();
  sweeps_.AwaitCancelled();
  sweeps_.Answer(Cancelled("compare.cancelled", "gone"));
  EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
}

// Row 87.
TEST_F(SweepRpc, WhatCannotBeReadIsRefused) {
  std::string reason;
  v1::SweepRequest request = Request();
  request.clear_over();
  EXPECT_EQ(Ask(request, &reason).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(reason, "sweep.bad_request");
  request = Request();
  request.set_over(static_cast<v1::SweepRequest::Axis>(99));
  EXPECT_EQ(Ask(request, &reason).error_code(), grpc::INVALID_ARGUMENT);
  request = Request();
  request.set_rounds(-1);
  EXPECT_EQ(Ask(request, &reason).error_code(), grpc::INVALID_ARGUMENT);
  request = Request();
  request.set_values(0, std::string(100, '1'));
  EXPECT_EQ(Ask(request, &reason).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(reason, "sweep.bad_request");
  request = Request();
  for (int i = 0; i < 33; ++i) request.add_values("1");
  EXPECT_EQ(Ask(request, &reason).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(reason, "sweep.bad_request");
  Start();
  comparison_ = v1::ComparisonService::NewStub(channel_);
  EXPECT_EQ(Ask(Request(), &reason).error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(reason, "sweep.disabled");
}

// Rows 83, 85, 87, 91: protobuf makes hundreds of bytes of each such entry.
TEST_F(SweepRpc, MillionsOfEntriesAreRefusedUnread) {
  struct Hostile {
    std::string call, entry, reason;
  };
  const std::string numbers(100, 1);
  const Hostile all[] = {
      {"Compare", {"\x0a\0", 2}, "compare.bad_request"},              // variants
      {"Compare", {"\x12\0", 2}, "compare.bad_request"},              // images
      {"Compare", {"\x1a\0", 2}, "request.header_too_large"},         // ids
      {"Compare", {"\xf8\x07\0", 3}, "request.header_too_large"},     // nothing that it knows
      {"Compare", {"\x10\0", 2}, "compare.bad_request"},              // images of another type
      {"Sweep", {"\x0a\0", 2}, "sweep.bad_request"},                  // variants
      {"Sweep", {"\x1a\0", 2}, "sweep.bad_request"},                  // values
      {"Sweep", {"\x22\0", 2}, "sweep.bad_request"},                  // images
      {"Explain", {"\x30\1", 2}, "request.header_too_large"},         // methods
      {"Explain", "\x3a\x64" + numbers, "request.header_too_large"},  // layers, packed
      {"Explain", "\x42\x64" + numbers, "request.header_too_large"},  // heads
      {"Serve", {"\x0a\0", 2}, "request.too_large"}};
  const int64_t before = ResidentBytesInUse();
  for (const auto& [call, entry, reason] : all) {
    std::string message;
    while (message.size() < 4 << 20) message += entry;
    grpc::ClientContext context;
    const grpc::Status status =
        CallRaw("/fovea.v1.ComparisonService/" + call, message, nullptr, &context);
    EXPECT_NE(status.error_code(), grpc::OK);
    EXPECT_EQ(ReasonTold(context), reason) << call << ": " << status.error_message();
  }
  if (kFreedMemoryIsGivenBack) {
    EXPECT_LT(ResidentBytesInUse(), before + (64 << 20));
  }
}

}  // namespace
}  // namespace fovea
