#include "server/transport/http/http_api.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/transport/http/http_routes.h"
#include "server/transport/http/http_status.h"

namespace fovea {
namespace {

using boost::beast::http::verb;
using ExchangePtr = std::shared_ptr<HttpExchange>;

// What a path's pattern has in braces, in its order.
using Names = std::vector<std::string>;

std::string MethodName(verb method) { return std::string(boost::beast::http::to_string(method)); }

// The names where `path` has the form of the pattern.
std::optional<Names> Match(std::string_view pattern, std::span<const std::string> path) {
  Names names;
  size_t at = 0;
  for (const std::string& part : path) {
    if (at >= pattern.size()) return std::nullopt;
    const size_t end = std::min(pattern.find('/', at), pattern.size());
    const std::string_view wanted = pattern.substr(at, end - at);
    if (wanted.starts_with('{') && !part.empty()) {
      names.push_back(part);
    } else if (wanted != part) {
      return std::nullopt;
    }
    at = end + 1;
  }
  if (at < pattern.size()) return std::nullopt;
  return names;
}

// What a path that is not known belongs to, or a method that a path has not, is told to whoever may
// know of models; which methods a path has, to everyone.
ApiGroup GroupOf(const HttpRequest& request) {
  if (request.method == verb::options) return ApiGroup::kHealth;
  const verb method = request.method == verb::head ? verb::get : request.method;
  for (const HttpRoute& route : HttpRoutes()) {
    if (route.method == method && Match(route.pattern, request.target.path)) return route.api.group;
  }
  return ApiGroup::kMetadata;
}

// Prefix of other servers' paths, and the hint at Fovea's counterpart.
struct Signpost {
  std::string_view path;  // the first match counts; an empty one matches all
  std::string_view remedy;
};
constexpr std::string_view kForHealth = "GET /healthz and /readyz report health";
constexpr std::string_view kForInference =
    "POST tensors to /v2/models/MODEL/infer, or a picture to /v1/classify, /v1/detect or "
    "/v1/segment with ?model=MODEL";
constexpr Signpost kSignposts[] = {
    {"v1/models", kForInference},
    {"v1/endpoints", kForInference},
    {"predict", kForInference},
    {"infer", kForInference},
    {"invocations", kForInference},
    {"ping", kForHealth},
    {"health", kForHealth},
    {"live", kForHealth},
    {"ready", kForHealth},
    {"v1/health", kForHealth},
    {"models", "GET /v2/models lists the models, POST /v2/repository/index their versions"},
    {"", "GET /openapi.json lists the paths"},
};

absl::Status NoSuchPath(const std::vector<std::string>& path) {
  if (path.size() > 1 && path.back().empty()) {
    return NotFound("http.path_unknown", "there is no such path: no path ends in a slash");
  }
  const std::string asked = absl::StrJoin(path, "/");
  const auto* const signpost = std::ranges::find_if(
      kSignposts, [&](const Signpost& one) { return asked.starts_with(one.path); });
  return NotFound("http.path_unknown",
                  absl::StrCat("there is no such path: ", std::string(signpost->remedy)));
}

// Returns true if the path is known and has the method.
bool IsRouted(const HttpRequest& request) {
  const verb method = request.method == verb::head ? verb::get : request.method;
  return std::ranges::any_of(HttpRoutes(), [&](const HttpRoute& route) {
    return route.method == method && Match(route.pattern, request.target.path);
  });
}

// What needs no key takes no long body.
bool IsShort(const HttpRequest& request) {
  using boost::beast::http::field;
  const std::string_view length = request.Field(field::content_length);
  int64_t bytes = 0;
  return request.Field(field::transfer_encoding).empty() &&
         (length.empty() ||
          (absl::SimpleAtoi(absl::string_view(length.data(), length.size()), &bytes) &&
           bytes <= limits::kMaxControlMessageBytes));
}

void Handle(HttpContext& context, ExchangePtr exchange) {
  HttpRequest& request = exchange->request();
  if (!request.caller) request.caller = CallerOf(context, request, GroupOf(request));
  const verb method = request.method == verb::head ? verb::get : request.method;
  if (request.target.whole_server) {
    return exchange->Answer({.status = boost::beast::http::status::no_content,
                             .fields = {{"Allow", "GET, HEAD, POST, DELETE, OPTIONS"}}});
  }
  std::string allowed;
  for (const HttpRoute& route : HttpRoutes()) {
    std::optional<Names> names = Match(route.pattern, request.target.path);
    if (!names) continue;
    if (route.method == method) {
      // Inference requests are admitted where they are counted.
      if (route.api.group != ApiGroup::kInference) {
        const absl::Status admitted = request.caller->Admit(request.arrived);
        if (!admitted.ok()) return exchange->Answer(ErrorAnswer(admitted));
      }
      request.route = route.pattern;
      // As Triton does: tritonclient.http.aio asks for compression everywhere, but unpacks only
      // answers to inferences.
      request.may_compress =
          !route.pattern.starts_with("v2") || route.api.group == ApiGroup::kInference;
      return route.run({context, std::move(exchange), *std::move(names)});
    }
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ",
                    route.method == verb::get ? "GET, HEAD" : MethodName(route.method));
  }
  if (!request.caller->refused.ok()) {
    return exchange->Answer(ErrorAnswer(request.caller->refused));
  }
  if (allowed.empty()) {
    return exchange->Answer(ErrorAnswer(NoSuchPath(request.target.path)));
  }
  HttpAnswer answer = ErrorAnswer(
      InvalidArgument("http.method_not_allowed",
                      absl::StrCat(MethodName(request.method),
                                   " is not allowed for this path, which takes ", allowed)));
  answer.fields.emplace_back("Allow", allowed);
  exchange->Answer(std::move(answer));
}

}  // namespace

HttpCheck MakeHttpCheck(HttpContext& context) {
  return [&context](HttpRequest& request) {
    const ApiGroup group = GroupOf(request);
    Caller& caller = request.caller.emplace(CallerOf(context, request, group));
    if (caller.refused.ok() && IsOpen(group) && !IsShort(request)) {
      caller.refused = ResourceExhausted(
          "request.too_large",
          absl::StrCat("a body of more than ", limits::kMaxControlMessageBytes, " bytes"));
    } else if (!IsOpen(group)) {
      // A key's places are taken before its bodies are held.
      caller.refused = caller.Admit(context.api.clock().Now());
    }
    // A caller that asks first (curl -T), or has a long body, is refused before it sends the body.
    const bool in_vain =
        !IsRouted(request) &&
        (!IsShort(request) || !request.Field(boost::beast::http::field::expect).empty());
    return caller.refused.ok() && !in_vain;
  };
}

HttpHandler MakeHttpApi(HttpContext& context) {
  return [&context](ExchangePtr exchange) { Handle(context, std::move(exchange)); };
}

}  // namespace fovea
