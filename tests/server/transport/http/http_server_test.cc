#include "server/transport/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/core/testing/notification.h"
#include "server/core/testing/watched_thread.h"
#include "tests/server/eventually.h"
#include "tests/server/transport/http/http_testing.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Text(const ReceivedBytes& bytes) {
  std::string text;
  for (const ScatteredBytes::Piece piece : bytes.pieces) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return text;
}

// Answers with the method's number of path parts and the body, or keeps the exchange.
class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpServerOptions options = {}) {
    options.port = 0;
    auto server = HttpServer::Create(
        options, budget_, SteadyClock(), [this](std::shared_ptr<HttpExchange> e) {
          if (hold_) {
            e->OnGone([this] { gone_.Notify(); });
            held_ = std::move(e);
            arrived_.Notify();
            return;
          }
          ++handled_;
          e->Answer({.fields = {{"X-Parts", std::to_string(e->request().target.path.size())}},
                     .body = {"<", Text(e->request().body), ">"}});
        });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Bodies are given back, whatever became of their requests.
  void TearDown() override {
    held_.reset();
    if (server_ != nullptr) server_->Close();
    EXPECT_EQ(budget_.held(), 0);
  }
  std::string Ask(std::string_view request) { return AskHttp(server_->port(), request); }

  MemoryBudget budget_{64 << 20, SteadyClock()};
  std::atomic<bool> hold_ = false;
  std::atomic<int> handled_ = 0;
  Notification arrived_, gone_;
  std::shared_ptr<HttpExchange> held_;
  std::unique_ptr<HttpServer> server_;
};

// Answers without their Date, each of which is checked to be one.
std::string WithoutDates(std::string answers) {
  const std::string field = "\r\nDate: ";
  for (size_t at; (at = answers.find(field)) != answers.npos;) {
    const size_t end = answers.find("\r\n", at + field.size());
    EXPECT_TRUE(answers.substr(at, end - at).ends_with(" GMT")) << answers;
    answers.erase(at, end - at);
  }
  return answers;
}

TEST_F(HttpServerTest, AnswersInTheOrderOfTheRequests) {
  Start();
  HttpConnection connection(server_->port());
  connection.Send(
      "GET /a/b HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none"
      "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
      "1\r\nt\r\n2;x=y\r\nwo\r\n0\r\n\r\n");
  EXPECT_EQ(WithoutDates(connection.ReadAll()),
            "HTTP/1.1 200 OK\r\nX-Parts: 2\r\nContent-Length: 2\r\n\r\n<>"
            "HTTP/1.1 200 OK\r\nX-Parts: 1\r\nContent-Length: 5\r\n\r\n<one>"
            "HTTP/1.1 200 OK\r\nX-Parts: 0\r\nContent-Length: 2\r\n\r\n"
            "HTTP/1.1 200 OK\r\nX-Parts: 0\r\nContent-Length: 5\r\nConnection: close\r\n\r\n<two>");
}

TEST_F(HttpServerTest, TakesLargeBodiesInAnyPieces) {
  Start();
  std::string body(3 << 20, 'b');
  for (size_t i = 0; i < body.size(); i += 1000) body[i] = static_cast<char>('c' + i / 1000 % 20);
  EXPECT_THAT(Ask(HttpMessage("POST /", body)), EndsWith("\r\n\r\n<" + body + ">"));
  std::string chunked =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
  for (size_t at = 0; at < body.size(); at += 300'000) {
    const std::string part = body.substr(at, 300'000);
    char size[16];
    std::snprintf(size, sizeof(size), "%zx", part.size());
    chunked += std::string(size) + "\r\n" + part + "\r\n";
  }
  EXPECT_THAT(Ask(chunked + "0\r\n\r\n"), EndsWith("\r\n\r\n<" + body + ">"));
  // A byte at a time.
  HttpConnection slow(server_->port());
  for (const char c : HttpMessage("POST /x", "slow")) slow.Send(std::string(1, c));
  EXPECT_THAT(slow.ReadAll(), EndsWith("<slow>"));
  EXPECT_EQ(budget_.held(), 0);
}

TEST_F(HttpServerTest, AnOldVersionEndsTheConnectionUnlessItAsksOtherwise) {
  Start();
  EXPECT_THAT(Ask("GET / HTTP/1.0\r\n\r\n"), HasSubstr("Connection: close\r\n"));
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(connection.ReadUntil("<>"), HasSubstr("Connection: keep-alive\r\n"));
  connection.Send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(connection.ReadAll(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, AsksForABodyThatWaitsForIt) {
  Start();
  HttpConnection connection(server_->port());
  const std::string head =
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
      "Connection: close\r\n\r\n";
  connection.Send(head);
  EXPECT_EQ(connection.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  connection.Send("hi");
  EXPECT_THAT(connection.ReadAll(), EndsWith("<hi>"));
  // It is not asked for where it is too long.
  Start({.max_body_bytes = 1});
  EXPECT_THAT(Ask(head), StartsWith("HTTP/1.1 413 "));
}

// Row 50, and what else two readers might read in two ways.
TEST_F(HttpServerTest, DoubtfulRequestsAreRefusedAndTheConnectionClosed) {
  Start();
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  std::string fields;
  for (int i = 0; i < 200; ++i) fields += "b:\r\n";
  const std::vector<std::pair<std::string, int>> bad = {
      {post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400},
      {post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {post + "Content-Length: 3, 3\r\n\r\nabc", 400},
      {post + "Content-Length: +3\r\n\r\nabc", 400},
      {post + "Content-Length: -3\r\n\r\nabc", 400},
      {post + "Content-Length: 0x3\r\n\r\nabc", 400},
      {post + "Content-Length: 3 4\r\n\r\nabc", 400},
      {post + "Content-Length:\r\n\r\nabc", 400},
      {post + "Content-Length: 99999999999999999999999\r\n\r\nabc", 400},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {post + "Transfer-Encoding: deflate ,\tChunked\r\n\r\n0\r\n\r\n", 501},
      {post + "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {chunked + "-2\r\nab\r\n0\r\n\r\n", 400},
      {chunked + "+1\r\na\r\n0\r\n\r\n", 400},
      {chunked + "0x1\r\na\r\n0\r\n\r\n", 400},
      {chunked + "fffffffffffffffff\r\na\r\n0\r\n\r\n", 400},
      {chunked + "1\na\r\n0\r\n\r\n", 400},
      {chunked + "1\r\nab\r\n0\r\n\r\n", 400},
      {chunked + "1\r\na\n0\r\n\r\n", 400},
      {chunked + "\r\na\r\n0\r\n\r\n", 400},
      {chunked + "5;a=\"\n0\n\nGET /evil HTTP/1.1\n\"\r\nhello\r\n0\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n\tb\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: x\n\n\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", 400},
      {std::string("GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", 36), 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: user@x\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x:y\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", 400},
      {"GET http:/// HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET http://user@x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET http://x/ HTTP/1.1\r\n\r\n", 400},
      {"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400},
      {"GET / HTTP/1.x\r\nHost: x\r\n\r\n", 400},
      {"GET / HTTP/11.2\r\nHost: x\r\n\r\n", 400},
      {"GET /\r\nHost: x\r\n\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"\x16\x03\x01 a TLS handshake\r\n\r\n", 400},
      {"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501},
      {post + "Content-Length: 3\r\nExpect: 200-ok\r\n\r\nabc", 417},
      {"GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", 431},
      {"GET / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n", 431},
      {"GET " + std::string(17, '/') + " HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {std::string(20'000, 'x'), 431},
      {"GET /" + std::string(9'000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
  };
  for (const auto& [request, status] : bad) {
    // What follows in the same connection is not looked at.
    const std::string answer = Ask(request + "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 " + std::to_string(status) + " "),
                              HasSubstr("Connection: close\r\n"), HasSubstr("{\"error\":")))
        << request.substr(0, 200);
    EXPECT_EQ(answer.find("HTTP/1.1", 1), answer.npos) << request.substr(0, 200);
  }
  EXPECT_EQ(handled_, 0);
  EXPECT_THAT(Ask(HttpMessage("GET /")), EndsWith("<>"));
}

TEST_F(HttpServerTest, ABodyInTooManyChunksIsRefused) {
  Start();
  std::string request =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
  std::string most = request;
  for (int64_t i = 0; i < limits::kMaxHttpChunks - 1; ++i) most += "1\r\na\r\n";
  EXPECT_THAT(Ask(most + "0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(most + "1\r\na\r\n0\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
  // A line of a chunk that does not end.
  EXPECT_THAT(Ask(request + "1;" + std::string(200'000, 'x')), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, BodiesAreBoundedOneByOneAndTogether) {
  Start({.max_body_bytes = 100'000});
  const std::string most(100'000, 'm');
  EXPECT_THAT(Ask(HttpMessage("POST /", most)), EndsWith("<" + most + ">"));
  EXPECT_THAT(Ask(HttpMessage("POST /", most + "m")), StartsWith("HTTP/1.1 413 "));
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n186a1\r\n" + most + "m\r\n";
  EXPECT_THAT(Ask(chunked + "0\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: "
                  "close\r\n\r\n186a0\r\n" +
                  most + "\r\n0\r\n\r\n"),
              EndsWith("<" + most + ">"));

  const auto others = budget_.TryHold(budget_.capacity() - 65'536);
  EXPECT_THAT(Ask(HttpMessage("POST /", "small")), EndsWith("<small>"));
  const std::string refused = Ask(HttpMessage("POST /", most));
  EXPECT_THAT(refused, AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n"),
                             HasSubstr("server.request_memory")));
}

TEST_F(HttpServerTest, AnIdleConnectionEnds) {
  Start({.idle = 100 * kMillisecond});
  EXPECT_EQ(Ask(""), "");
}

TEST_F(HttpServerTest, WhoSendsTooSlowlyIsCutOff) {
  Start({.head_time = 200 * kMillisecond, .transfer_time = 200 * kMillisecond});
  EXPECT_THAT(Ask("GET / HT"), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabc"),
              StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"),
              StartsWith("HTTP/1.1 408 "));
  // A byte now and then is too slow as well.
  HttpConnection slow(server_->port());
  for (const char c : HttpMessage("GET /" + std::string(1000, 'a'))) {
    if (!slow.Send(std::string(1, c))) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(slow.ReadAll(), StartsWith("HTTP/1.1 408 "));
  // Who goes in the middle leaves nothing behind (TearDown).
  HttpConnection(server_->port())
      .Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
}

TEST_F(HttpServerTest, WhatComesFastAtFirstBuysNoTime) {
  Start({.transfer_time = 200 * kMillisecond});
  HttpConnection connection(server_->port());
  connection.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n");
  connection.Send(std::string(3'900'000, 'x'));
  const Nanos start = SteadyClock().Now();
  while (connection.Send("x")) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(SteadyClock().Now() - start, 10 * kSecond);
}

TEST_F(HttpServerTest, WhoGoesOnSendingBehindARefusalIsCutOff) {
  Start();
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/9.9\r\n\r\n");
  const Nanos start = SteadyClock().Now();
  while (connection.Send(std::string(1 << 16, 'x'))) {
    ASSERT_LT(SteadyClock().Now() - start, 30 * kSecond);
  }
}

TEST_F(HttpServerTest, BodiesLeaveHalfOfTheMemoryToOthers) {
  Start();
  HttpConnection half(server_->port());
  half.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n" +
            std::string(40 << 20, 'x'));
  EXPECT_THAT(half.ReadAll(), StartsWith("HTTP/1.1 503 "));
}

TEST_F(HttpServerTest, AnAnswerThatIsNotReadIsGivenUp) {
  Start({.transfer_time = 200 * kMillisecond});
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived_.Wait();
  Notification left;
  const Nanos start = SteadyClock().Now();
  held_->Answer({.body = {std::string(64 << 20, 'a')}}, [&] { left.Notify(); });
  held_.reset();
  left.Wait();
  // It stands still: a little more than the system's buffers took would have had half a minute.
  EXPECT_LT(SteadyClock().Now() - start, 15 * kSecond);
}

TEST_F(HttpServerTest, WhatComesBehindARequestWaitsForItsAnswer) {
  Start({.threads = 1});
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived_.Wait();
  hold_ = false;
  connection.Send(HttpMessage("POST /", "second"));
  connection.AwaitArrived();
  // The thread answers this one when it has looked at what came before.
  Ask(HttpMessage("GET /another/connection"));
  EXPECT_EQ(handled_, 1);
  held_->Answer({.body = {"first"}});
  held_.reset();
  EXPECT_THAT(connection.ReadAll(), AllOf(HasSubstr("\r\n\r\nfirst"), EndsWith("<second>")));
}

TEST_F(HttpServerTest, TellsWhenACallerGoes) {
  Start();
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived_.Wait();
  connection.Close();
  gone_.Wait();
  Notification left;
  held_->Answer({}, [&] { left.Notify(); });
  left.Wait();
  held_.reset();
}

TEST_F(HttpServerTest, AHandlerThatForgetsItsAnswerHasOneMade) {
  Start();
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("GET /"));
  arrived_.Wait();
  held_.reset();
  EXPECT_THAT(connection.ReadAll(), StartsWith("HTTP/1.1 503 "));
}

TEST_F(HttpServerTest, AHandlerThatThrowsEndsNoOtherRequest) {
  const auto server = *HttpServer::Create({.port = 0}, budget_, SteadyClock(),
                                          [](const std::shared_ptr<HttpExchange>& exchange) {
                                            if (!exchange->request().target.path.empty())
                                              throw std::logic_error("a bug");
                                            exchange->Answer({});
                                          });
  EXPECT_THAT(AskHttp(server->port(), HttpMessage("GET /bug")), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(AskHttp(server->port(), HttpMessage("GET /")), StartsWith("HTTP/1.1 200 "));
}

// A body that begins in what was read while the request before it waited.
TEST_F(HttpServerTest, ABodyBehindARequestArrivesWhole) {
  Start();
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send(
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 6\r\n\r\nab");
  arrived_.Wait();
  connection.AwaitArrived();
  hold_ = false;
  held_->Answer({.body = {"held"}});
  held_.reset();
  connection.ReadUntil("held");
  connection.Send("cdef");
  EXPECT_THAT(connection.ReadAll(), EndsWith("<abcdef>"));
}

TEST_F(HttpServerTest, ADrainEndsConnectionsWithTheirAnswers) {
  Start();
  HttpConnection kept(server_->port()), idle(server_->port());
  kept.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  kept.ReadUntil("<>");
  server_->DrainStreams();
  kept.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(kept.ReadAll(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("<>")));
  server_->Close();
  EXPECT_EQ(idle.ReadAll(), "");
}

TEST_F(HttpServerTest, CloseTellsHandlersAndWaitsForThem) {
  Start();
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived_.Wait();
  {
    WatchedThread closing([&] { server_->Close(); });
    gone_.Wait();
    EXPECT_TRUE(closing.WaitsBeforeItEnds());
    held_->Answer({});
    held_.reset();
  }
  EXPECT_EQ(connection.ReadAll(), "");
}

TEST_F(HttpServerTest, AConnectionTooManyIsClosedWhereAllOthersHaveARequest) {
  Start({.max_connections = 1});
  hold_ = true;
  HttpConnection first(server_->port());
  first.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived_.Wait();
  EXPECT_EQ(Ask(HttpMessage("GET /")), "");
  hold_ = false;
  held_->Answer({.body = {"held"}});
  held_.reset();
  first.ReadUntil("held");
  // `first` has its whole answer, but the server may not know yet that it is idle again.
  EXPECT_TRUE(Eventually([&] { return Ask(HttpMessage("GET /")).ends_with("<>"); }));
}

// Row 103: silent connections shut nobody out, and one that has had an answer since stays.
TEST_F(HttpServerTest, TheConnectionThatIsIdleForLongestMakesRoom) {
  Start({.max_connections = 4});
  const std::string ask = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  HttpConnection busy(server_->port());
  busy.Send(ask);
  busy.ReadUntil("<>");
  HttpConnection silent(server_->port()), slow(server_->port());
  slow.Send("GET / HTTP/1.1\r\n");
  HttpConnection last(server_->port());  // its answer shows that all have been accepted
  last.Send(ask);
  last.ReadUntil("<>");
  busy.Send(ask);
  busy.ReadUntil("<>");
  HttpConnection third(server_->port());
  third.Send(ask);
  third.ReadUntil("<>");
  EXPECT_EQ(silent.ReadAll(), "");
  HttpConnection fourth(server_->port());
  fourth.Send(ask);
  fourth.ReadUntil("<>");
  EXPECT_EQ(slow.ReadAll(), "");
  busy.Send(ask);
  busy.ReadUntil("<>");
}

// Row 103: also while no thread is free to close the connections that should make room.
TEST_F(HttpServerTest, ConnectionsStayNearTheirLimitWhileThreadsAreBusy) {
  constexpr int kMost = 8, kAsked = 64;
  Notification busy, go_on;
  auto server = HttpServer::Create({.port = 0, .threads = 1, .max_connections = kMost}, budget_,
                                   SteadyClock(), [&](const std::shared_ptr<HttpExchange>& e) {
                                     busy.Notify();
                                     go_on.Wait();
                                     e->Answer({});
                                   });
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  HttpConnection asks(server_->port());
  asks.Send(HttpMessage("GET /"));
  busy.Wait();
  std::vector<std::unique_ptr<HttpConnection>> idle;
  for (int i = 0; i < kAsked; ++i) {
    idle.push_back(std::make_unique<HttpConnection>(server_->port()));
  }
  const Nanos refused_at = SteadyClock().Now();
  EXPECT_EQ(idle.back()->ReadAll(), "") << "it is refused";
  // Together they have waited for a place as long as one may, 50 ms.
  EXPECT_LT(SteadyClock().Now() - refused_at, 1 * kSecond);
  const auto open = std::ranges::count_if(idle, [](const auto& one) { return one->IsOpen(); });
  EXPECT_GE(open, kMost - 1);
  EXPECT_LE(open, 3 * kMost);
  go_on.Notify();
  EXPECT_THAT(asks.ReadAll(), StartsWith("HTTP/1.1 200 "));
}

// Row 103.
TEST_F(HttpServerTest, EmptyLinesBuyNoTime) {
  Start({.idle = 200 * kMillisecond});
  HttpConnection connection(server_->port());
  const Nanos end = SteadyClock().Now() + 10 * kSecond;
  while (connection.IsOpen() && SteadyClock().Now() < end) {
    connection.TrySend("\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LT(SteadyClock().Now(), end);
}

// RFC 9112, sections 2.2, 2.3 and 3.2.
TEST_F(HttpServerTest, TakesWhatTheRfcsDemand) {
  Start();
  const std::string rest = "Host: x\r\nConnection: close\r\n\r\n";
  const std::pair<std::string, std::string> sound[] = {
      {"\r\nGET /a/b HTTP/1.1\r\n", "2"},
      {"\r\n\r\n\r\nGET /a/b HTTP/1.1\r\n", "2"},
      {"GET http://y:80/a/b HTTP/1.1\r\n", "2"},
      {"GET HTTPS://[::1]/a?b HTTP/1.1\r\n", "1"},
      {"GET http://y HTTP/1.1\r\n", "0"},
      {"GET /a HTTP/1.2\r\n", "1"},
      {"GET /a HTTP/1.9\r\n", "1"},
      {"OPTIONS * HTTP/1.1\r\n", "0"},
  };
  for (const auto& [line, parts] : sound) {
    EXPECT_THAT(Ask(line + rest),
                AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("X-Parts: " + parts + "\r\n")))
        << line;
  }
  const std::string answer = Ask(HttpMessage("GET /"));
  const size_t at = answer.find("\r\nDate: ");
  ASSERT_NE(at, answer.npos);
  std::tm date{};
  EXPECT_EQ(*strptime(answer.c_str() + at + 8, "%a, %d %b %Y %H:%M:%S GMT", &date), '\r');
  EXPECT_NEAR(difftime(timegm(&date), std::time(nullptr)), 0, 60);
}

// Row 50: what cannot become a head is not waited for.
TEST_F(HttpServerTest, AHeadInBareLineFeedsIsRefusedAtOnce) {
  Start();
  for (const char* head : {"GET / HTTP/1.1\nHost: x\n\n", "\nGET / HTTP/1.1\r\n", "GET /\rX"}) {
    EXPECT_THAT(Ask(head), StartsWith("HTTP/1.1 400 ")) << head;
  }
}

// Row 104.
TEST_F(HttpServerTest, TellsWhenACallerGoesWhoHasSentMore) {
  Start();
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\nx");
  arrived_.Wait();
  connection.Send("y");
  connection.Close();
  gone_.Wait();
  held_->Answer({});
  held_.reset();
}

TEST_F(HttpServerTest, RequestsThatWereSentBeforeTheEndAreAnswered) {
  Start();
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  connection.EndSending();
  arrived_.Wait();
  Ask(HttpMessage("BREW /"));  // by then the end has been seen
  hold_ = false;
  held_->Answer({.body = {"held"}});
  held_.reset();
  EXPECT_THAT(connection.ReadAll(), AllOf(HasSubstr("held"), EndsWith("<>")));
}

TEST_F(HttpServerTest, APortThatIsTakenIsUnavailable) {
  Start();
  const auto second = HttpServer::Create({.port = server_->port(), .port_flag = "--metrics-port"},
                                         budget_, SteadyClock(), [](const auto&) {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--metrics-port"));
}

TEST_F(HttpServerTest, ACallerWhoSendsNoMoreIsAnsweredAndThenHungUpOn) {
  Start();
  for (int i = 0; i < 20; ++i) {  // the end comes before, while or after the answer is written
    HttpConnection connection(server_->port());
    connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    connection.EndSending();
    const std::string answer = connection.ReadAll();  // fails where the connection stays open
    EXPECT_THAT(answer, EndsWith("<>"));
  }
}

TEST_F(HttpServerTest, AnAnswerInPartsComesPartByPart) {
  Start();
  hold_ = true;
  HttpConnection connection(server_->port());
  // The next request waits for the end of the answer.
  connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived_.Wait();
  hold_ = false;
  Notification first_left, second_left;
  held_->AnswerFirst({.body = {"one"}}, [&] { first_left.Notify(); });
  EXPECT_EQ(WithoutDates(connection.ReadUntil("one\r\n")),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  first_left.Wait();
  held_->AnswerNext("two", [&] { second_left.Notify(); });
  EXPECT_EQ(connection.ReadUntil("two\r\n"), "3\r\ntwo\r\n");
  second_left.Wait();
  EXPECT_EQ(handled_, 0);
  held_->AnswerLast("end");
  EXPECT_EQ(WithoutDates(connection.ReadUntil("<>")),
            "3\r\nend\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nX-Parts: 1\r\nContent-Length: 2\r\n\r\n<>");
}

TEST_F(HttpServerTest, PartsOfAnOldVersionEndWithTheConnection) {
  Start();
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  arrived_.Wait();
  Notification left;
  held_->AnswerFirst({.body = {"one"}}, [&] { left.Notify(); });
  left.Wait();
  held_->AnswerLast("end");
  EXPECT_EQ(WithoutDates(connection.ReadAll()),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\noneend");
}

TEST_F(HttpServerTest, TellsWhenACallerGoesBetweenTwoParts) {
  Start();
  hold_ = true;
  auto connection = std::make_unique<HttpConnection>(server_->port());
  connection->Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived_.Wait();
  Notification left;
  held_->AnswerFirst({.body = {"one"}}, [&] { left.Notify(); });
  connection->ReadUntil("one\r\n");
  left.Wait();
  connection.reset();
  // The first part that a closed socket gets is answered with a reset, which the next one meets.
  for (int part = 0; part < 200; ++part) {
    Notification next_left;
    held_->AnswerNext("more", [&] { next_left.Notify(); });
    next_left.Wait();
  }
  gone_.Wait();
  Notification nowhere;
  held_->AnswerNext("for nobody", [&] { nowhere.Notify(); });
  nowhere.Wait();
  held_->AnswerLast("");
}

TEST_F(HttpServerTest, AnAnswerWhoseLastPartDoesNotComeIsCutOff) {
  Start();
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived_.Wait();
  Notification left;
  held_->AnswerFirst({.body = {"one"}}, [&] { left.Notify(); });
  left.Wait();
  held_.reset();
  EXPECT_THAT(connection.ReadAll(), EndsWith("\r\n3\r\none\r\n")) << "no chunk that is the end";
}

TEST_F(HttpServerTest, APartThatIsNotReadIsGivenUp) {
  Start({.transfer_time = kSecond / 5});
  hold_ = true;
  HttpConnection connection(server_->port());
  connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived_.Wait();
  Notification left;
  held_->AnswerFirst({.body = {std::string(32 << 20, 'x')}}, [&] { left.Notify(); });
  gone_.Wait();
  left.Wait();
  held_->AnswerLast("");
}

TEST_F(HttpServerTest, AnswersAreCompressedForWhoAcceptsIt) {
  Start();
  const std::string body(4000, 'a');
  const std::string plain = Ask(HttpMessage("POST /a", body));
  EXPECT_THAT(plain.substr(0, 200), HasSubstr("Content-Length: 4002\r\n"));
  EXPECT_THAT(Ask(HttpMessage("POST /a", body, "Accept-Encoding: gzip\r\n")),
              AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("Content-Encoding: gzip\r\n"),
                    Not(HasSubstr("aaaa"))));
}

TEST_F(HttpServerTest, WhatIsDeferredHoldsUpNoOtherRequest) {
  Notification started, go_on;
  auto server = *HttpServer::Create({.port = 0, .threads = 1}, budget_, SteadyClock(),
                                    [&](std::shared_ptr<HttpExchange> e) {
                                      if (e->request().target.path.empty())
                                        return e->Answer({.body = {"quick"}});
                                      e->Defer([&, e] {
                                        started.Notify();
                                        go_on.Wait();
                                        e->Answer({.body = {"slow"}});
                                      });
                                    });
  HttpConnection slow(server->port());
  slow.Send(HttpMessage("GET /slow"));
  started.Wait();
  EXPECT_THAT(AskHttp(server->port(), HttpMessage("GET /")), EndsWith("quick"));
  go_on.Notify();
  EXPECT_THAT(slow.ReadAll(), EndsWith("slow"));
}

TEST_F(HttpServerTest, DeferredWorkThatRunsOutOfMemoryIsAnsweredSo) {
  auto server =
      *HttpServer::Create({.port = 0}, budget_, SteadyClock(), [](std::shared_ptr<HttpExchange> e) {
        e->OnGone([e] {});
        e->Defer([e] { throw std::bad_alloc(); });
      });
  EXPECT_THAT(AskHttp(server->port(), HttpMessage("GET /")),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("server.out_of_memory")));
}

TEST_F(HttpServerTest, AnAnswerThatNobodyCountsIsCountedByThePort) {
  MemoryBudget small(64 << 10, SteadyClock());
  auto server =
      *HttpServer::Create({.port = 0}, small, SteadyClock(), [&](std::shared_ptr<HttpExchange> e) {
        const bool large = !e->request().target.path.empty();
        e->Answer({.body = {std::string(large ? 65'000 : 30'000, 'a')}});
      });
  EXPECT_THAT(AskHttp(server->port(), HttpMessage("GET /")), StartsWith("HTTP/1.1 200 "));
  MemoryBudget::Hold others = *small.TryHold(1000);
  EXPECT_THAT(AskHttp(server->port(), HttpMessage("GET /large")),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("server.request_memory")));
}

}  // namespace
}  // namespace fovea
