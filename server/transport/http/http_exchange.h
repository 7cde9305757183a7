// One HTTP request and its answer, between the server that frames them and the handler that gives
// them a meaning.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/api/caller.h"
#include "server/core/clock.h"
#include "server/transport/http/http_target.h"
#include "server/transport/messages/received_bytes.h"

namespace fovea {

struct HttpRequest {
  boost::beast::http::verb method = boost::beast::http::verb::get;
  HttpTarget target;
  boost::beast::http::fields fields;
  ReceivedBytes body;  // as it came, counted in the budget; compressed where its encoding says so
  int64_t body_bytes = 0;
  Nanos arrived = 0;             // when its last byte came
  bool tls = false;              // it came within TLS
  std::string certificate;       // whom the connection's certificate names; empty: none was shown
  std::optional<Caller> caller;  // who makes the request, once somebody has found out
  std::string_view route;        // the pattern of its path, a constant, once it is known
  bool may_compress = true;      // false: the answer is sent as it is, whatever is accepted

  // Of the first field of that name; empty where there is none. Valid as long as the request.
  std::string_view Field(boost::beast::http::field name) const {
    const auto value = fields[name];
    return {value.data(), value.size()};
  }
  std::string_view Field(const char* name) const {
    const auto value = fields[name];
    return {value.data(), value.size()};
  }
};

struct HttpAnswer {
  boost::beast::http::status status = boost::beast::http::status::ok;
  // Names and values that hold no line ends.
  std::vector<std::pair<std::string, std::string>> fields;
  std::vector<std::string> body;  // the parts of it, one behind the other
};

inline int64_t BodyBytes(const HttpAnswer& answer) {
  int64_t bytes = 0;
  for (const std::string& part : answer.body) bytes += static_cast<int64_t>(part.size());
  return bytes;
}

// Lives as long as somebody holds it. Answer is called exactly once, on any thread.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // The handler's, until it answers.
  virtual HttpRequest& request() = 0;

  // `gone` is called at most once, on any thread, when the caller ends the connection before the
  // answer. Set before the handler returns.
  virtual void OnGone(std::function<void()> gone) = 0;

  // Runs `work`, which may take long, on one of the threads that are there for this; where it runs
  // out of memory the request is answered so. The exchange lives until then.
  virtual void Defer(absl::AnyInvocable<void()> work) = 0;

  // `left` is called once, on any thread, when the answer has left or has nowhere to go; until then
  // its bytes are counted by whoever answers. It is compressed where its caller accepts that.
  virtual void Answer(HttpAnswer answer, std::function<void()> left) = 0;
  // The same of an answer that nobody counts: the port does.
  virtual void Answer(HttpAnswer answer) = 0;

  // In place of Answer, an answer whose parts come one after the other, short ones that nobody
  // counts: first its head with the first part, at the end AnswerLast. `next` is called once, on
  // any thread, when the part has left or has nowhere to go: then the next one may come. Whom
  // OnGone names is told until the last part is given. An exchange that ends before it cuts the
  // answer off.
  virtual void AnswerFirst(HttpAnswer answer, std::function<void()> next) = 0;
  virtual void AnswerNext(std::string part, std::function<void()> next) = 0;
  virtual void AnswerLast(std::string part) = 0;
};

// Called for each head, before its body is read. False: the body is not read, the request is handed
// on without it, and its connection ends with the answer.
using HttpCheck = std::function<bool(HttpRequest& request)>;

// Called for each whole request on one of the few threads that all connections share, those that
// ask for health too: it waits for nothing, and what takes long it defers.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange> exchange)>;

}  // namespace fovea
