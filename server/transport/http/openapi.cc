#include "server/transport/http/openapi.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "server/transport/http/openapi_schemas.h"

namespace fovea {
namespace {

using boost::beast::http::verb;

constexpr char kDescription[] =
    "The Open Inference Protocol (KServe v2) with Triton's extensions, and vision tasks in one "
    "request. Each GET may be a HEAD, whose answer has no body. Bodies of inference may be "
    "compressed (Content-Encoding), and answers are where Accept-Encoding says so. Prometheus "
    "scrapes the same metrics at a port of their own.";

// What a route may have in braces.
struct PathParameter {
  std::string_view name;
  std::string_view description;
  std::string_view pattern;
  int64_t max_length;
};
constexpr PathParameter kPathParameters[] = {
    {"model", "the name of a model", "^[A-Za-z0-9._-]+$", limits::kMaxModelNameBytes},
    {"version", "a version's number, or a label that stands for one",
     "^([1-9][0-9]{0,17}|[A-Za-z][A-Za-z0-9._-]*)$", limits::kMaxModelNameBytes},
    {"experiment", "the name of an experiment", "^[A-Za-z0-9._-]+$",
     limits::kMaxExperimentNameBytes},
    {"file", "the name of a file of the playground", "^[a-z0-9_]+[.][a-z]+$",
     limits::kMaxModelNameBytes},
    {"region", "the name of a registered region of shared memory", "",
     limits::kMaxSharedMemoryNameBytes},
};

// Errors of every route: what the head of a request or its body may have wrong, and what the server
// may lack. docs/faults.md.
constexpr int kErrorsOfAll[] = {400, 408, 413, 414, 417, 431, 500, 503};
constexpr int kErrorsWithKeys[] = {401, 403, 429};  // of all that needs a key where keys are asked

std::string_view MeaningOf(int status) {
  switch (status) {
    case 400:
      return "The request is wrong, or does not fit the model.";
    case 401:
      return "It has no key, or one that is not known.";
    case 403:
      return "Its key, or this port, does not allow the call; or it is another site's page.";
    case 404:
      return "There is no such thing.";
    case 408:
      return "It came too slowly.";
    case 413:
      return "It is larger than the server takes.";
    case 414:
      return "Its path and query are too long.";
    case 415:
      return "A picture is of a kind that is not read.";
    case 417:
      return "What its Expect says is not known.";
    case 429:
      return "Its caller has reached a quota, or there are as many of these as may be.";
    case 431:
      return "Its fields are too long.";
    case 500:
      return "The server, or the model, has failed.";
    case 501:
      return "This server does not have that.";
    case 503:
      return "Not now: the server or the model is not ready, has too much to do, or ends.";
    case 504:
      return "Its time is up.";
    default:
      return "An error.";
  }
}

OpenApiJson StringHeader(std::string_view description) {
  return {{"description", std::string(description)}, {"schema", {{"type", "string"}}}};
}

// Of an error: what ErrorAnswer adds.
OpenApiJson HeadersOf(int status) {
  if (status == 429 || status == 503) {
    return {{"Retry-After",
             {{"description", "seconds"},
              {"required", true},
              {"schema", {{"type", "integer"}, {"minimum", 0}}}}}};
  }
  if (status == 401) return {{"WWW-Authenticate", StringHeader("RFC 9110, section 11.6.1")}};
  return nullptr;
}

OpenApiJson ErrorResponse(int status, OpenApiJson content) {
  OpenApiJson response = {{"description", std::string(MeaningOf(status))}};
  if (OpenApiJson headers = HeadersOf(status); !headers.is_null()) {
    response["headers"] = std::move(headers);
  }
  response["content"] = std::move(content);
  return response;
}

OpenApiJson ResponsesOf(const HttpRoute& route, OpenApiSchemas& schemas) {
  OpenApiJson good = {{"description", "As asked."}};
  if (route.api.group == ApiGroup::kInference) {
    good["headers"] = {{"Server-Timing", StringHeader("milliseconds by stage (W3C Server Timing)")},
                       {"X-Request-Id", StringHeader("the request's id, where it named one")},
                       {"Inference-Header-Content-Length",
                        StringHeader("bytes of the JSON in front of binary tensors")},
                       {"traceparent", StringHeader("of the request's span, or as it came (W3C "
                                                    "Trace Context)")}};
  }
  good["content"] = route.operation.answer(schemas);
  std::set<int> errors(std::begin(kErrorsOfAll), std::end(kErrorsOfAll));
  if (!IsOpen(route.api.group)) {
    errors.insert(std::begin(kErrorsWithKeys), std::end(kErrorsWithKeys));
  } else if (route.method != verb::get) {
    errors.insert(403);  // http.other_origin
  }
  for (const int status : route.operation.errors) {
    if (status != 0) errors.insert(status);
  }
  OpenApiJson responses = {{"200", std::move(good)}};
  for (const int status : errors) {
    const std::string code = std::to_string(status);
    if (status == 503 && route.operation.may_not_be_ready) {
      OpenApiJson answer = route.operation.answer(schemas);
      OpenApiJson& schema = answer["application/json"]["schema"];
      schema = {{"anyOf", {schema, openapi::ErrorContent(schemas)["application/json"]["schema"]}}};
      responses[code] = ErrorResponse(status, std::move(answer));
    } else {
      responses[code] = {{"$ref", absl::StrCat("#/components/responses/Error", code)}};
    }
  }
  return responses;
}

// "get"
std::string OperationName(verb method) {
  return absl::AsciiStrToLower(std::string(boost::beast::http::to_string(method)));
}

OpenApiJson PathParametersOf(std::string_view pattern) {
  OpenApiJson parameters = OpenApiJson::array();
  for (size_t at = 0; (at = pattern.find('{', at)) != pattern.npos; ++at) {
    const std::string_view name = pattern.substr(at + 1, pattern.find('}', at) - at - 1);
    const auto* const known = std::ranges::find(kPathParameters, name, &PathParameter::name);
    FOVEA_CHECK(known != std::end(kPathParameters));
    OpenApiJson schema = {{"type", "string"}, {"minLength", 1}, {"maxLength", known->max_length}};
    if (!known->pattern.empty()) schema["pattern"] = std::string(known->pattern);
    parameters.push_back({{"name", std::string(name)},
                          {"in", "path"},
                          {"required", true},
                          {"description", std::string(known->description)},
                          {"schema", std::move(schema)}});
  }
  return parameters;
}

OpenApiJson OperationOf(const HttpRoute& route, const OpenApiOptions& options,
                        OpenApiSchemas& schemas) {
  const HttpOperation& operation = route.operation;
  OpenApiJson described = {
      {"operationId", std::string(operation.id)},
      {"summary", std::string(operation.summary)},
      {"tags", {std::string(kApiGroupNames[static_cast<size_t>(route.api.group)])}}};
  OpenApiJson parameters = PathParametersOf(route.pattern);
  if (operation.parameters != nullptr) {
    for (OpenApiJson& one : operation.parameters(schemas)) parameters.push_back(std::move(one));
  }
  if (!parameters.empty()) described["parameters"] = std::move(parameters);
  if (operation.body != nullptr) described["requestBody"] = operation.body(schemas);
  described["responses"] = ResponsesOf(route, schemas);
  if (options.asks_for_keys && !IsOpen(route.api.group)) {
    described["security"] = {{{"key", OpenApiJson::array()}}};
  }
  return described;
}

}  // namespace

std::string OpenApiDocument(std::span<const HttpRoute> routes, const OpenApiOptions& options) {
  OpenApiSchemas schemas;
  OpenApiJson paths = OpenApiJson::object();
  for (const HttpRoute& route : routes) {
    if (!options.groups.Has(route.api.group)) continue;
    paths[absl::StrCat("/", std::string(route.pattern))][OperationName(route.method)] =
        OperationOf(route, options, schemas);
  }
  OpenApiJson responses = OpenApiJson::object();
  for (const int status :
       {400, 401, 403, 404, 408, 413, 414, 415, 417, 429, 431, 500, 501, 503, 504}) {
    responses[absl::StrCat("Error", status)] =
        ErrorResponse(status, openapi::ErrorContent(schemas));
  }
  OpenApiJson document = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Fovea"},
        {"version", std::string(options.version)},
        {"description", kDescription},
        {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"paths", std::move(paths)},
      {"components", {{"schemas", schemas.all()}, {"responses", std::move(responses)}}}};
  if (options.asks_for_keys) {
    document["components"]["securitySchemes"] = {
        {"key",
         {{"type", "http"},
          {"scheme", "bearer"},
          {"description", "an API key of this server; health needs none"}}}};
  }
  return document.dump();
}

void http_calls::TellOpenApi(PathCall call) {
  HttpExchange& exchange = *call.exchange;
  exchange.Defer([call = std::move(call)] {
    ServerApi& api = call.api();
    call.Answer(OpenApiDocument(HttpRoutes(), {.version = api.Metadata().version,
                                               .asks_for_keys = api.authenticator().asks_for_keys(),
                                               .groups = call.context.groups}));
  });
}

}  // namespace fovea
