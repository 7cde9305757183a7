#include "server/transport/http/cross_origin.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/transport/http/http_status.h"

namespace fovea {
namespace {

using boost::beast::http::field;
using boost::beast::http::status;
using boost::beast::http::verb;
using ExchangePtr = std::shared_ptr<HttpExchange>;

// Beyond those that any page may read or send.
constexpr char kReadableFields[] =
    "Inference-Header-Content-Length, Retry-After, Server-Timing, traceparent, X-Request-Id";
constexpr char kSendableFields[] =
    "Authorization, Content-Encoding, Content-Type, fovea-experiment-key, "
    "Inference-Header-Content-Length, traceparent, tracestate, X-Request-Id";
constexpr char kPreflightSeconds[] = "600";  // that a browser remembers the answer

// Lets a page of `origin` read the answers of `exchange`.
class ReadableExchange final : public HttpExchange {
 public:
  ReadableExchange(ExchangePtr exchange, std::string origin)
      : exchange_(std::move(exchange)), origin_(std::move(origin)) {}

  HttpRequest& request() override { return exchange_->request(); }
  void OnGone(std::function<void()> gone) override { exchange_->OnGone(std::move(gone)); }
  void Defer(absl::AnyInvocable<void()> work) override { exchange_->Defer(std::move(work)); }
  void Answer(HttpAnswer answer, std::function<void()> left) override {
    exchange_->Answer(Readable(std::move(answer)), std::move(left));
  }
  void Answer(HttpAnswer answer) override { exchange_->Answer(Readable(std::move(answer))); }
  void AnswerFirst(HttpAnswer answer, std::function<void()> next) override {
    exchange_->AnswerFirst(Readable(std::move(answer)), std::move(next));
  }
  void AnswerNext(std::string part, std::function<void()> next) override {
    exchange_->AnswerNext(std::move(part), std::move(next));
  }
  void AnswerLast(std::string part) override { exchange_->AnswerLast(std::move(part)); }

 private:
  HttpAnswer Readable(HttpAnswer answer) const {
    answer.fields.emplace_back("Access-Control-Allow-Origin", origin_);
    answer.fields.emplace_back("Access-Control-Expose-Headers", kReadableFields);
    answer.fields.emplace_back("Timing-Allow-Origin", origin_);
    answer.fields.emplace_back("Vary", "Origin");
    return answer;
  }

  const ExchangePtr exchange_;
  const std::string origin_;
};

bool IsPreflight(const HttpRequest& request) {
  return request.method == verb::options &&
         !request.Field(field::access_control_request_method).empty();
}

void AnswerPreflight(HttpExchange& exchange) {
  exchange.Answer({.status = status::no_content,
                   .fields = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE"},
                              {"Access-Control-Allow-Headers", kSendableFields},
                              {"Access-Control-Max-Age", kPreflightSeconds}}});
}

// A page that this server has not sent. Where a proxy ends TLS, it is asked as https all the same.
bool IsOther(const HttpRequest& request) {
  const std::string_view origin = request.Field(field::origin);
  if (request.Field("Sec-Fetch-Site") == "cross-site") return true;
  const std::string host(request.Field(field::host));
  const bool is_own = origin == absl::StrCat("https://", host) ||
                      (!request.tls && origin == absl::StrCat("http://", host));
  return !origin.empty() && !is_own;
}

}  // namespace

absl::Status CheckOrigin(std::string_view origin) {
  if (origin == "*") return absl::OkStatus();
  std::string_view host = origin;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) host = origin.substr(scheme.size());
  }
  const auto in_hosts = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':' ||
           c == '[' || c == ']';
  };
  if (host.size() == origin.size() || host.empty() || !std::ranges::all_of(host, in_hosts)) {
    return InvalidArgument("http.bad_origin",
                           absl::StrCat(InQuotes(origin),
                                        " is no origin: http://HOST[:PORT], https://HOST[:PORT] in "
                                        "lower case, or *"));
  }
  return absl::OkStatus();
}

HttpHandler GuardOrigins(std::vector<std::string> allowed, HttpHandler next) {
  return [allowed = std::move(allowed), next = std::move(next)](ExchangePtr exchange) {
    const HttpRequest& request = exchange->request();
    const std::string origin(request.Field(field::origin));
    const bool any = std::ranges::find(allowed, "*") != allowed.end();
    if (!origin.empty() && (any || std::ranges::find(allowed, origin) != allowed.end())) {
      exchange = std::make_shared<ReadableExchange>(std::move(exchange), any ? "*" : origin);
      return IsPreflight(request) ? AnswerPreflight(*exchange) : next(std::move(exchange));
    }
    const bool only_reads = request.method == verb::get || request.method == verb::head;
    if (!only_reads && IsOther(request)) {
      return exchange->Answer(
          ErrorAnswer(MakeError(absl::StatusCode::kPermissionDenied, "http.other_origin",
                                "requests of pages that this server did not send are refused")));
    }
    next(std::move(exchange));
  };
}

}  // namespace fovea
