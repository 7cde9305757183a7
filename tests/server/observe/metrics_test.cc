#include "server/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <string>

namespace fovea {
namespace {

using testing::HasSubstr;
using testing::Not;

ModelView View(const std::string& name, const std::string& attention = "self/dense") {
  ModelView view;
  view.name = name;
  view.version = "1";
  view.attention = attention;
  view.task = "classification";
  view.memory_bytes = {{"weights", 123}};
  return view;
}

StageTimes Stages(Nanos queue, Nanos compute) {
  StageTimes stages(0);
  stages.EndStage(Stage::kQueue, queue);
  stages.EndStage(Stage::kCompute, queue + compute);
  return stages;
}

// What an HTTP client gets: the whole answer.
std::string Get(int port, const std::string& request) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(send(connection, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t got; (got = recv(connection, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, got);
  close(connection);
  return answer;
}

class MetricsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto port = metrics_.Serve("127.0.0.1", 0);
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *port;
  }
  std::string Scrape() { return Get(port_, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); }

  Metrics metrics_;
  int port_ = 0;
};

TEST_F(MetricsTest, ScrapesWhatWasCounted) {
  const auto meter = metrics_.Meter(View("cats"));
  meter->OnAnswered(absl::StatusCode::kOk, Stages(2'000'000, 8'000'000));
  meter->OnAnswered(absl::StatusCode::kUnavailable, Stages(0, 0));
  meter->OnBatch(4, 100, 8'000'000, 50, 1 << 20);
  meter->OnRejected("full");
  const std::string text = Scrape();
  EXPECT_THAT(text, HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(text, HasSubstr(R"(fovea_requests_total{attention="self/dense",code="OK",model="cats",protocol="grpc",)"
                              R"(task="classification",version="1"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(code="UNAVAILABLE",model="cats",protocol="grpc",task="classification",version="1"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(stage="compute",task="classification",version="1"} 0.008)"));
  EXPECT_THAT(text, HasSubstr(R"(kind="weights",model="cats",task="classification",version="1"} 123)"));
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes"));
  EXPECT_THAT(text, HasSubstr("fovea_build_info"));
}

TEST_F(MetricsTest, TheSeriesOfAModelGoWithIt) {
  auto meter = metrics_.Meter(View("cats"));
  EXPECT_THAT(Scrape(), HasSubstr("model=\"cats\""));
  meter.reset();
  EXPECT_THAT(Scrape(), Not(HasSubstr("model=\"cats\"")));
}

TEST_F(MetricsTest, AReloadGoesOnCountingWhereTheOldOneStopped) {
  auto old = metrics_.Meter(View("cats"));
  old->OnBatch(3, 1, 1, 1, 1);
  auto fresh = metrics_.Meter(View("cats"));
  old.reset();
  fresh->OnBatch(2, 1, 1, 1, 1);
  const auto statistics = metrics_.Statistics("cats", "");
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ(statistics->front().inference_count, 5u);
  EXPECT_EQ(statistics->front().execution_count, 2u);
}

TEST_F(MetricsTest, AReloadWithAnotherAttentionHasSeriesOfItsOwn) {
  auto old = metrics_.Meter(View("cats"));
  auto fresh = metrics_.Meter(View("cats", "self/knn:k=0.5"));
  EXPECT_THAT(Scrape(), HasSubstr("self/knn:k=0.5"));
  old.reset();
  EXPECT_THAT(Scrape(), Not(HasSubstr("self/dense")));
  EXPECT_EQ(metrics_.Find("cats", "1"), fresh);
}

TEST_F(MetricsTest, StatisticsFollowTritonsMeaning) {
  const auto meter = metrics_.Meter(View("cats"));
  meter->OnAnswered(absl::StatusCode::kOk, Stages(2, 8));
  meter->OnAnswered(absl::StatusCode::kInternal, Stages(1, 1));
  meter->OnBatch(4, 5, 6, 7, 1);
  meter->OnBatch(4, 5, 6, 7, 1);
  const ModelStatistics statistics = metrics_.Statistics("cats", "1")->front();
  EXPECT_EQ(statistics.success.count, 1u);
  EXPECT_EQ(statistics.success.nanoseconds, 10u);
  EXPECT_EQ(statistics.fail.count, 1u);
  EXPECT_EQ(statistics.queue.nanoseconds, 2u);
  EXPECT_EQ(statistics.compute_infer.nanoseconds, 8u);
  EXPECT_EQ(statistics.batches.at(4).compute_infer.count, 2u);
  EXPECT_EQ(statistics.batches.at(4).compute_infer.nanoseconds, 12u);
  EXPECT_GT(statistics.last_inference_ms, 1'600'000'000'000u);
}

TEST_F(MetricsTest, StatisticsOfNothingAreNotFound) {
  EXPECT_EQ(metrics_.Statistics("cats", "").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(metrics_.Statistics("", "")->empty());
}

TEST_F(MetricsTest, TheEndpointAnswersNothingElse) {
  EXPECT_THAT(Get(port_, "GET /../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), HasSubstr("404"));
  EXPECT_THAT(Get(port_, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
              HasSubstr("405"));
  EXPECT_EQ(Get(port_, "nonsense\r\n\r\n"), "");
  EXPECT_EQ(Get(port_, "GET /metrics HTTP/1.1\r\nX: " + std::string(32 << 10, 'a') + "\r\n\r\n"), "");
  EXPECT_THAT(Scrape(), HasSubstr("200 OK"));
}

TEST_F(MetricsTest, APortThatIsTakenIsAnError) {
  Metrics other;
  EXPECT_EQ(other.Serve("127.0.0.1", port_).status().code(), absl::StatusCode::kUnavailable);
}

TEST(GeometricBucketsTest, CoverTheirRangeInEqualFactors) {
  const auto bounds = GeometricBuckets(0.0005, 8, std::exp2(0.25));
  EXPECT_EQ(bounds.front(), 0.0005);
  EXPECT_GE(bounds.back(), 8);
  EXPECT_EQ(bounds.size(), 57u);
  for (size_t i = 1; i < bounds.size(); ++i) EXPECT_NEAR(bounds[i] / bounds[i - 1], std::exp2(0.25), 2e-3);
}

}  // namespace
}  // namespace fovea
