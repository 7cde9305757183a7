#include "server/observe/metrics_endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/observe/metrics.h"
#include "tests/server/observe/exposition.h"

namespace fovea {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Connection {
 public:
  explicit Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t more = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) return;  // cut off
      sent += static_cast<size_t>(more);
    }
  }
  // Up to the first `end`, or until the other side closes.
  std::string ReadUntil(const std::string& end) {
    std::string all;
    char byte;
    while (!all.ends_with(end) && recv(socket_, &byte, 1, 0) == 1) all.push_back(byte);
    return all;
  }
  // Everything until the other side closes.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    for (ssize_t got; (got = recv(socket_, buffer, sizeof(buffer), 0)) > 0;) {
      all.append(buffer, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  int socket_;
};

class MetricsEndpointTest : public ::testing::Test {
 protected:
  std::string Ask(const std::string& request) {
    Connection connection(endpoint_->port());
    connection.Send(request);
    return connection.ReadAll();
  }
  std::string Get(const std::string& path) {
    return Ask("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  std::unique_ptr<MetricsEndpoint> endpoint_ =
      *MetricsEndpoint::Create("127.0.0.1", 0, [] { return std::string("up 1\n"); });
};

TEST_F(MetricsEndpointTest, AnswersWithTheTextAndItsType) {
  EXPECT_GT(endpoint_->port(), 0);
  const std::string answer = Get("/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nup 1\n"));
  EXPECT_THAT(Get("/metrics?name=x"), EndsWith("up 1\n"));
}

TEST_F(MetricsEndpointTest, NothingElseIsThere) {
  for (const char* path : {"/", "/etc/passwd", "/metrics/../../etc/passwd", "/metricsx",
                           "//metrics", "http://elsewhere/metrics"}) {
    EXPECT_THAT(Get(path), StartsWith("HTTP/1.1 404 ")) << path;
  }
}

TEST_F(MetricsEndpointTest, OnlyReads) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const std::string answer =
        Ask(std::string(method) + " /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 ")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD\r\n"));
  }
  const std::string head = Ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

TEST_F(MetricsEndpointTest, AConnectionServesSeveralScrapes) {
  Connection connection(endpoint_->port());
  connection.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  connection.Send("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answers = connection.ReadAll();
  EXPECT_THAT(answers.substr(1), HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_NE(answers.find("up 1\n"), answers.rfind("up 1\n"));
}

TEST_F(MetricsEndpointTest, NonsenseAndFloodsAreCutOff) {
  const std::vector<std::string> bad = {
      "\x16\x03\x01 a TLS handshake\r\n\r\n", "GET\r\n\r\n",
      "GET /metrics HTTP/1.1\r\nX: " + std::string(1 << 20, 'x') + "\r\n\r\n",
      "POST /metrics HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + std::string(1 << 16, 'x')};
  for (const std::string& request : bad) {
    EXPECT_THAT(Ask(request), Not(HasSubstr(" 200 ")));
    EXPECT_THAT(Get("/metrics"), EndsWith("up 1\n")) << "the endpoint lives";
  }
}

TEST_F(MetricsEndpointTest, AnIdleConnectionHoldsUpNobodyAndNoShutdown) {
  Connection idle(endpoint_->port());
  Connection half(endpoint_->port());
  half.Send("GET /met");
  EXPECT_THAT(Get("/metrics"), EndsWith("up 1\n"));
  endpoint_.reset();
  EXPECT_EQ(half.ReadAll(), "");
}

TEST(MetricsEndpointLimitTest, AConnectionTooManyWaitsUntilAnotherEnds) {
  std::atomic<int> scrapes = 0;  // on the endpoint's thread
  const auto endpoint = *MetricsEndpoint::Create(
      "127.0.0.1", 0,
      [&scrapes] {
        ++scrapes;
        return std::string("up 1\n");
      },
      /*max_connections=*/1);
  auto first = std::make_unique<Connection>(endpoint->port());
  first->Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(first->ReadUntil("up 1\n"), EndsWith("up 1\n"));
  Connection second(endpoint->port());
  second.Send("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  for (int i = 0; i < 50; ++i) {
    first->Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(first->ReadUntil("up 1\n"), EndsWith("up 1\n"));
  }
  EXPECT_EQ(scrapes, 51) << "all of them the first connection's";
  first.reset();
  EXPECT_THAT(second.ReadAll(), EndsWith("up 1\n"));
}

TEST(MetricsEndpointHostTest, AnswersOnEveryAddressOfAName) {
  const auto endpoint = MetricsEndpoint::Create("localhost", 0, [] { return "up 1\n"; });
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  Connection connection((*endpoint)->port());  // to 127.0.0.1, whichever address comes first
  connection.Send("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(connection.ReadAll(), EndsWith("up 1\n"));
}

TEST_F(MetricsEndpointTest, APortThatIsTakenIsUnavailable) {
  const auto second = MetricsEndpoint::Create("127.0.0.1", endpoint_->port(), [] { return ""; });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--metrics-port"));
}

TEST_F(MetricsEndpointTest, AHostThatIsNotOursIsUnavailable) {
  const auto elsewhere = MetricsEndpoint::Create("192.0.2.1", 0, [] { return ""; });
  EXPECT_EQ(elsewhere.status().code(), absl::StatusCode::kUnavailable);
}

TEST(MetricsOverHttpTest, AScrapeIsValid) {
  Metrics metrics;
  const absl::StatusOr<int> port = metrics.Serve("127.0.0.1", 0);
  ASSERT_TRUE(port.ok()) << port.status();
  Connection connection(*port);
  connection.Send("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = connection.ReadAll();
  const Exposition text(answer.substr(answer.find("\r\n\r\n") + 4));
  EXPECT_EQ(text.Find("fovea_build_info").size(), 1);
  EXPECT_EQ(text.Find("process_resident_memory_bytes").size(), 1);
}

}  // namespace
}  // namespace fovea
