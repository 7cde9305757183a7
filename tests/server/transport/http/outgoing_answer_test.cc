#include "server/transport/http/outgoing_answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "server/transport/http/transfer_pace.h"

namespace fovea {
namespace {

using boost::beast::http::status;
using SteadyTime = TransferPace::SteadyTime;

HttpAnswer Answer() {
  HttpAnswer answer{.status = status::ok, .fields = {{"X-One", "1"}}};
  for (int part = 0; part < 100; ++part) {
    answer.body.push_back(
        std::string(static_cast<size_t>(part), static_cast<char>('a' + part % 26)));
  }
  return answer;
}

constexpr AnswerFraming kLasting{.keep_alive = true};

// What arrives where at most `step` bytes leave at a time.
std::string Arrived(OutgoingAnswer answer, size_t step) {
  std::string arrived;
  while (!answer.done()) {
    std::string next;
    for (const auto& buffer : answer.Next()) {
      EXPECT_GT(buffer.size(), 0u);
      next.append(static_cast<const char*>(buffer.data()), buffer.size());
    }
    next.resize(std::min(next.size(), step));
    arrived += next;
    answer.Sent(next.size());
    EXPECT_EQ(answer.sent(), static_cast<int64_t>(arrived.size()));
  }
  return arrived;
}

TEST(OutgoingAnswerTest, ArrivesWholeInWhateverStepsItLeaves) {
  std::string whole = "HTTP/1.1 200 OK\r\nX-One: 1\r\nContent-Length: 4950\r\n\r\n";
  for (const std::string& part : Answer().body) whole += part;
  for (const size_t step : {1, 2, 7, 50, 99, 1000, 100'000}) {
    EXPECT_EQ(Arrived(OutgoingAnswer(Answer(), kLasting), step), whole) << step;
  }
}

TEST(OutgoingAnswerTest, TheHeadTellsWhetherTheConnectionLasts) {
  const auto head = [](status code, const AnswerFraming& framing) {
    return Arrived(OutgoingAnswer({.status = code, .body = {"four"}}, framing), 1000);
  };
  EXPECT_EQ(head(status::ok, {.keep_alive = true, .is_http_1_0 = true}),
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: keep-alive\r\n\r\nfour");
  EXPECT_EQ(head(status::not_found, {}),
            "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfour");
  EXPECT_EQ(head(status::ok, {.keep_alive = true, .has_body = false}),
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
}

TEST(OutgoingAnswerTest, PartsAreChunksUntilTheLast) {
  const AnswerFraming chunked{.keep_alive = true, .in_parts = true};
  EXPECT_EQ(Arrived(OutgoingAnswer({.body = {"", "fifteen letters"}}, chunked), 3),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nf\r\nfifteen letters\r\n");
  EXPECT_EQ(Arrived(OutgoingAnswer(std::string("two"), chunked, /*last=*/false), 3),
            "3\r\ntwo\r\n");
  EXPECT_EQ(Arrived(OutgoingAnswer(std::string("end"), chunked, /*last=*/true), 100),
            "3\r\nend\r\n0\r\n\r\n");
  EXPECT_EQ(Arrived(OutgoingAnswer(std::string(), chunked, /*last=*/true), 100), "0\r\n\r\n")
      << "an empty part is no chunk, which would be the end";
  const AnswerFraming old{.is_http_1_0 = true, .in_parts = true};
  EXPECT_EQ(Arrived(OutgoingAnswer({.body = {"one"}}, old), 100),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\none");
  EXPECT_EQ(Arrived(OutgoingAnswer(std::string("end"), old, /*last=*/true), 100), "end");
}

TEST(TransferPaceTest, EachStretchOfTimeHasToBringItsShare) {
  constexpr int64_t kShare = 20 * limits::kLeastHttpBytesPerSecond;
  const auto at = [](int seconds) { return SteadyTime(std::chrono::seconds(seconds)); };
  TransferPace pace(20 * kSecond);
  pace.Start(at(100));
  EXPECT_EQ(pace.Limit(0, at(101)), at(120));
  EXPECT_EQ(pace.Limit(kShare - 1, at(110)), at(120)) << "what is fast at first buys no time";
  EXPECT_EQ(pace.Limit(kShare, at(115)), at(135));
  EXPECT_EQ(pace.Limit(2 * kShare - 1, at(130)), at(135));
  EXPECT_EQ(pace.Limit(3 * kShare, at(134)), at(154));
  pace.Start(at(200));
  EXPECT_EQ(pace.Limit(0, at(205)), at(220));
  EXPECT_EQ(pace.Limit(kShare, at(206)), at(226)) << "counted from its start";
}

}  // namespace
}  // namespace fovea
