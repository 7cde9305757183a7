// fovea.v1.ComparisonService/Compare; what it shares with Sweep is in sweep_rpc_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "proto/fovea/v1/comparison.grpc.pb.h"
#include "tests/server/api/fake_comparisons.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

class CompareRpc : public GrpcServerTest {
 protected:
  CompareRpc() {
    Start({.port = 0}, {.comparisons = &comparisons_});
    comparison_ = v1::ComparisonService::NewStub(channel_);
  }
  static v1::CompareRequest Request() {
    v1::CompareRequest request;
    for (const char* attention : {"", "knn:k=3"}) {
      v1::Variant& variant = *request.add_variants();
      variant.set_model_name("vit");
      variant.set_attention(attention);
    }
    request.add_images("picture");
    return request;
  }

  FakeComparisons comparisons_;
  std::unique_ptr<v1::ComparisonService::Stub> comparison_;
};

TEST_F(CompareRpc, TellsHowItGoesOnAndLastWhatCameOut) {
  v1::CompareRequest request = Request();
  request.set_rounds(30);
  request.set_max_time_us(5'000'000);
  grpc::ClientContext context;
  const auto stream = comparison_->Compare(&context, request);
  ASSERT_EQ(comparisons_.request().variants.size(), 2u);
  EXPECT_EQ(comparisons_.request().variants[1].attention, "knn:k=3");
  EXPECT_THAT(comparisons_.request().images, ::testing::ElementsAre("picture"));
  EXPECT_EQ(comparisons_.request().rounds, 30);
  EXPECT_EQ(comparisons_.request().max_time, 5 * kSecond);
  EXPECT_GE(server_->api->memory().held(), 7) << "the image, until it is over";
  comparisons_.Tell(3, 30, {{.compute_ms = {1, 2, 3}, .ratio = 1.5}});
  v1::CompareResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.progress().done(), 3);
  ASSERT_EQ(response.progress().so_far_size(), 1);
  EXPECT_EQ(response.progress().so_far(0).ratio(), 1.5);
  comparisons_.Answer(FakeComparisons::Example());
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.comparison().id(), "c1");
  ASSERT_EQ(response.comparison().variants_size(), 2);
  const v1::ComparedVariant& other = response.comparison().variants(1);
  EXPECT_EQ(other.compute().ratio().upper(), 1.75);
  EXPECT_EQ(other.classes().same_top1(), 1);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return server_->api->memory().held() == 0; }));
}

// Row 84.
TEST_F(CompareRpc, ACallerWhoGoesEndsIt) {
  grpc::ClientContext context;
  const auto stream = comparison_->Compare(&context, Request());
  comparisons_.request();
  context.TryCancel();
  comparisons_.AwaitCancelled();
  comparisons_.Answer(Cancelled("compare.cancelled", "gone"));
  EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
}

}  // namespace
}  // namespace fovea
