#include "server/transport/http/cross_origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
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

// The Host field without port and final dot, in lower case; "" if there is none.
std::string HostName(std::string_view host) {
  const size_t bracket = host.starts_with('[') ? host.find(']') : 0;
  host = host.substr(0, host.find(':', std::min(bracket, host.size())));
  if (host.ends_with('.')) host.remove_suffix(1);
  return absl::AsciiStrToLower(absl::string_view(host.data(), host.size()));
}

// IPv6 stands in brackets.
bool IsAddress(const std::string& host) {
  char bytes[sizeof(in6_addr)];
  if (inet_pton(AF_INET, host.c_str(), bytes) == 1) return true;
  return host.starts_with('[') && host.ends_with(']') &&
         inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), bytes) == 1;
}

bool IsOfBrowser(const HttpRequest& request) {
  return std::ranges::any_of(request.fields, [](const auto& one) {
    const std::string name = absl::AsciiStrToLower(one.name_string().to_string());
    return name == "origin" || name.starts_with("sec-fetch-");
  });
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
      return exchange->Answer(ErrorAnswer(MakeError(
          absl::StatusCode::kPermissionDenied, "http.other_origin",
          absl::StrCat("requests of pages of ", origin.empty() ? "other sites" : InQuotes(origin),
                       " are refused: the server's --http-allow-origin allows them"))));
    }
    next(std::move(exchange));
  };
}

absl::Status CheckHttpHost(std::string_view host) {
  const auto in_names = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  };
  const bool is_name = !host.empty() && std::ranges::all_of(host, in_names);
  if (host == "*" || is_name || IsAddress(std::string(host))) return absl::OkStatus();
  return InvalidArgument(
      "http.bad_host",
      absl::StrCat(InQuotes(host),
                   " is not a host: write a name in lower case without a port, or *"));
}

HttpHandler GuardHosts(std::vector<std::string> hosts, bool keys, HttpHandler next) {
  for (std::string& host : hosts) {
    const size_t scheme = host.find("://");
    host = HostName(std::string_view(host).substr(scheme == host.npos ? 0 : scheme + 3));
  }
  hosts.emplace_back("localhost");
  if (std::ranges::find(hosts, "*") != hosts.end()) return next;
  return [hosts = std::move(hosts), keys, next = std::move(next)](ExchangePtr exchange) {
    const HttpRequest& request = exchange->request();
    const std::string host = HostName(request.Field(field::host));
    // Browsers always name a host; some health checks do not.
    if (request.tls || (keys && !IsOfBrowser(request)) || host.empty() || IsAddress(host) ||
        std::ranges::find(hosts, host) != hosts.end()) {
      return next(std::move(exchange));
    }
    exchange->Answer(ErrorAnswer(InvalidArgument(
        "http.other_host", absl::StrCat(InQuotes(host),
                                        " is not a name of this server: use its address, or "
                                        "start it with --http-host ",
                                        host))));
  };
}

}  // namespace fovea
