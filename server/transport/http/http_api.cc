#include "server/transport/http/http_api.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/unique_json.h"
#include "server/core/request_memory.h"
#include "server/transport/http/contiguous.h"
#include "server/transport/http/http_status.h"
#include "server/transport/http/json_text.h"
#include "server/transport/http/message_json.h"
#include "server/transport/http/settings_json.h"
#include "server/transport/messages/model_messages.h"

namespace fovea {
namespace {

using boost::beast::http::status;
using boost::beast::http::verb;
using nlohmann::json;
using ExchangePtr = std::shared_ptr<HttpExchange>;

HttpAnswer JsonAnswer(std::string text, status code = status::ok) {
  return {
      .status = code, .fields = {{"Content-Type", "application/json"}}, .body = {std::move(text)}};
}

// What a path's pattern has in braces, in its order.
using Names = std::vector<std::string>;

struct Call {
  HttpContext& context;
  ExchangePtr exchange;
  Names names;

  // The one with that number; empty where the pattern has fewer.
  std::string Name(size_t number) const { return number < names.size() ? names[number] : ""; }
  ServerApi& api() const { return context.api; }
  void Answer(absl::StatusOr<std::string> text) const {
    exchange->Answer(text.ok() ? JsonAnswer(*std::move(text)) : ErrorAnswer(text.status()));
  }
};

struct Route {
  verb method;
  std::string_view pattern;  // "{}" stands for a part that may be anything
  ApiMethod api;             // what it stands for
  void (*run)(Call call);
};

// The names where `path` has the form of the pattern.
std::optional<Names> Match(std::string_view pattern, std::span<const std::string> path) {
  Names names;
  size_t at = 0;
  for (const std::string& part : path) {
    if (at >= pattern.size()) return std::nullopt;
    const size_t end = std::min(pattern.find('/', at), pattern.size());
    const std::string_view wanted = pattern.substr(at, end - at);
    if (wanted == "{}" && !part.empty()) {
      names.push_back(part);
    } else if (wanted != part) {
      return std::nullopt;
    }
    at = end + 1;
  }
  if (at < pattern.size()) return std::nullopt;
  return names;
}

// The body of a call without tensors: an object, or nothing at all. Counted in the memory of
// requests while it is read.
absl::StatusOr<json> ReadObject(const Call& call, int64_t max_bytes) {
  // Two bytes are a value and what separates it from the next; a name is held twice.
  constexpr int64_t kParsedPerByte = 2 * sizeof(json);
  const HttpRequest& request = call.exchange->request();
  if (request.body_bytes == 0) return json::object();
  if (request.body_bytes > max_bytes) {
    return ResourceExhausted("request.too_large",
                             absl::StrCat("a body of more than ", max_bytes, " bytes"));
  }
  RequestMemory memory(call.api().memory());
  FOVEA_RETURN_IF_ERROR(memory.Take((1 + kParsedPerByte) * request.body_bytes));
  const ContiguousText text = Gather(request.body, request.body_bytes, 0);
  std::optional<json> object = ParseUniqueJson(text.text);
  if (!object || !object->is_object()) {
    return InvalidArgument("request.json", "the body is no JSON object, or names something twice");
  }
  return *std::move(object);
}

// Answers later, from another thread.
template <typename Answer, typename Start, typename Respond>
void AnswerLater(const Call& call, Start start, Respond respond) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  call.exchange->OnGone([gone] { *gone = true; });
  start(WaitingCaller<Answer>{.gone = [gone] { return gone->load(); },
                              .done =
                                  [exchange = call.exchange, respond](Answer answer) {
                                    absl::Status status;
                                    if constexpr (std::is_same_v<Answer, absl::Status>) {
                                      status = answer;
                                    } else {
                                      status = answer.status();
                                    }
                                    exchange->Answer(status.ok() ? JsonAnswer(respond(answer))
                                                                 : ErrorAnswer(status));
                                  }});
}

// Health.

void Live(Call call) { call.Answer(R"({"live":true})"); }

void AnswerReady(const Call& call, bool ready, std::string text) {
  HttpAnswer answer = JsonAnswer(std::move(text), ready ? status::ok : status::service_unavailable);
  if (!ready) answer.fields.emplace_back("Retry-After", "1");
  call.exchange->Answer(std::move(answer));
}

void Ready(Call call) {
  const bool ready = call.api().serving();
  AnswerReady(call, ready, absl::StrCat(R"({"ready":)", ready ? "true" : "false", "}"));
}

void ModelReady(Call call) {
  const absl::StatusOr<bool> ready = call.api().ModelReady(call.Name(0), call.Name(1));
  if (!ready.ok()) return call.Answer(ready.status());
  std::string name;
  AppendText(call.Name(0), &name);
  AnswerReady(call, *ready,
              absl::StrCat(R"({"name":)", name, R"(,"ready":)", *ready ? "true" : "false", "}"));
}

// What there is.

void TellOfServer(Call call) {
  inference::ServerMetadataResponse response;
  FillServerMetadata(call.api().Metadata(), &response);
  response.add_extensions("binary_tensor_data");
  call.Answer(ToJson(response));
}

template <typename Message, void (*kFill)(const ModelView&, Message*)>
void TellOfModel(Call call) {
  const auto model = call.api().FindModel(call.Name(0), call.Name(1));
  if (!model.ok()) return call.Answer(model.status());
  Message message;
  kFill(**model, &message);
  call.Answer(ToJson(message));
}

void Statistics(Call call) {
  const auto models = call.api().Statistics(call.Name(0), call.Name(1));
  if (!models.ok()) return call.Answer(models.status());
  inference::ModelStatisticsResponse response;
  for (const auto& model : *models) FillStatistics(model, response.add_model_stats());
  call.Answer(ToJson(response));
}

// Inference.

void Infer(Call call) {
  StartInfer(call.context, std::move(call.exchange), call.Name(0), call.Name(1));
}

template <VisionTask kTask>
void Vision(Call call) {
  StartVision(call.context, std::move(call.exchange), kTask);
}

// The repository.

// As KServe's clients know it.
void ListModels(Call call) {
  AnswerLater<ServerApi::RepositoryIndex>(
      call,
      [&](auto caller) { call.api().ListRepository({.ready_only = true}, std::move(caller)); },
      [](const ServerApi::RepositoryIndex& entries) {
        std::set<std::string> names;  // each has an entry for each of its versions
        for (const IndexEntry& entry : *entries) names.insert(entry.name);
        return json{{"models", names}}.dump();
      });
}

void Index(Call call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  if (!body.ok()) return call.Answer(body.status());
  const auto ready = body->find("ready");
  if (ready != body->end() && !ready->is_boolean()) {
    return call.Answer(InvalidArgument("request.json", "'ready' is neither true nor false"));
  }
  AnswerLater<ServerApi::RepositoryIndex>(
      call,
      [&](auto caller) {
        call.api().ListRepository(
            {.ready_only = ready != body->end() && ready->template get<bool>()}, std::move(caller));
      },
      [](const ServerApi::RepositoryIndex& entries) {
        std::string list = "[";
        for (const IndexEntry& entry : *entries) {
          inference::RepositoryIndexResponse::ModelIndex message;
          FillIndexEntry(entry, &message);
          absl::StrAppend(&list, list.size() > 1 ? "," : "", ToJson(message));
        }
        return list + "]";
      });
}

void Load(Call call) {
  const auto body = ReadObject(call, limits::kMaxLoadMessageBytes);
  if (!body.ok()) return call.Answer(body.status());
  LoadCall load{.model_name = call.Name(0)};
  const auto parameters = body->find("parameters");
  if (parameters != body->end()) {
    if (!parameters->is_object()) {
      return call.Answer(InvalidArgument("request.json", "'parameters' is no object"));
    }
    for (const auto& [name, value] : parameters->items()) {
      LoadCall::Parameter& parameter = load.parameters.emplace_back();
      parameter.name = name;
      if (value.is_string()) parameter.text = value.get<std::string>();
    }
  }
  AnswerLater<absl::Status>(
      call, [&](auto caller) { call.api().LoadModel(std::move(load), std::move(caller)); },
      [](const absl::Status&) { return "{}"; });
}

void Unload(Call call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  if (!body.ok()) return call.Answer(body.status());
  AnswerLater<absl::Status>(
      call,
      [&](auto caller) { call.api().UnloadModel({.model_name = call.Name(0)}, std::move(caller)); },
      [](const absl::Status&) { return "{}"; });
}

// Shared memory.

// "{}", or the error.
void AnswerDone(const Call& call, const absl::Status& status) {
  call.Answer(status.ok() ? absl::StatusOr<std::string>("{}") : status);
}

void Register(Call call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  if (!body.ok()) return call.Answer(body.status());
  SharedMemoryRegionInfo region{.name = call.Name(0)};
  for (const auto& [name, value] : body->items()) {
    const bool is_key = name == "key";
    if (!is_key && name != "offset" && name != "byte_size") continue;
    if (is_key ? !value.is_string() : !value.is_number_unsigned()) {
      return call.Answer(InvalidArgument(
          "request.json", absl::StrCat("'", name, is_key ? "' is no text" : "' is no number")));
    }
    if (is_key) region.key = value.get<std::string>();
    if (name == "offset") region.offset = value.get<uint64_t>();
    if (name == "byte_size") region.byte_size = value.get<uint64_t>();
  }
  AnswerDone(call, call.api().RegisterSharedMemory(std::move(region)));
}

void Unregister(Call call) {
  call.api().UnregisterSharedMemory(call.Name(0));
  call.Answer("{}");
}

void ListRegions(Call call) {
  const auto regions = call.api().SharedMemoryStatus(call.Name(0));
  if (!regions.ok()) return call.Answer(regions.status());
  std::string list = "[";
  for (const SharedMemoryRegionInfo& region : *regions) {
    inference::SystemSharedMemoryStatusResponse::RegionStatus message;
    FillRegion(region, &message);
    absl::StrAppend(&list, list.size() > 1 ? "," : "", ToJson(message));
  }
  call.Answer(list + "]");
}

// What this server does not have, in the words of those that do. Generic clients ask for the status
// and unregister everything before they start.

void NoRegions(Call call) { call.Answer("[]"); }
void AnswerNothing(Call call) { call.Answer("{}"); }
void RegisterCuda(Call call) { call.Answer(ServerApi::RegisterCudaSharedMemory()); }

// Settings. A GET changes nothing, whatever its body.

void TraceSettings(Call call) {
  call.Answer(AnswerTraceSettings(call.api(), call.Name(0), json::object()));
}
void ChangeTraceSettings(Call call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  call.Answer(body.ok() ? AnswerTraceSettings(call.api(), call.Name(0), *body) : body.status());
}
void LogSettings(Call call) { call.Answer(AnswerLogSettings(call.api(), json::object())); }
void ChangeLogSettings(Call call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  call.Answer(body.ok() ? AnswerLogSettings(call.api(), *body) : body.status());
}

constexpr auto kConfig = TellOfModel<inference::ModelConfig, FillConfig>;
constexpr auto kMetadata = TellOfModel<inference::ModelMetadataResponse, FillMetadata>;

constexpr Route kRoutes[] = {
    {verb::get, "v2", Method("ServerMetadata"), TellOfServer},
    {verb::get, "v2/health/live", Method("ServerLive"), Live},
    {verb::get, "v2/health/ready", Method("ServerReady"), Ready},
    {verb::get, "healthz", Method("ServerLive"), Live},
    {verb::get, "readyz", Method("ServerReady"), Ready},
    {verb::get, "v2/models", Method("RepositoryIndex"), ListModels},
    {verb::get, "v2/models/stats", Method("ModelStatistics"), Statistics},
    {verb::get, "v2/models/{}", Method("ModelMetadata"), kMetadata},
    {verb::get, "v2/models/{}/ready", Method("ModelReady"), ModelReady},
    {verb::get, "v2/models/{}/config", Method("ModelConfig"), kConfig},
    {verb::get, "v2/models/{}/stats", Method("ModelStatistics"), Statistics},
    {verb::post, "v2/models/{}/infer", Method("ModelInfer"), Infer},
    {verb::get, "v2/models/{}/versions/{}", Method("ModelMetadata"), kMetadata},
    {verb::get, "v2/models/{}/versions/{}/ready", Method("ModelReady"), ModelReady},
    {verb::get, "v2/models/{}/versions/{}/config", Method("ModelConfig"), kConfig},
    {verb::get, "v2/models/{}/versions/{}/stats", Method("ModelStatistics"), Statistics},
    {verb::post, "v2/models/{}/versions/{}/infer", Method("ModelInfer"), Infer},
    {verb::post, "v2/repository/index", Method("RepositoryIndex"), Index},
    {verb::post, "v2/repository/models/{}/load", Method("RepositoryModelLoad"), Load},
    {verb::post, "v2/repository/models/{}/unload", Method("RepositoryModelUnload"), Unload},
    {verb::get, "v2/systemsharedmemory/status", Method("SystemSharedMemoryStatus"), ListRegions},
    {verb::get, "v2/systemsharedmemory/region/{}/status", Method("SystemSharedMemoryStatus"),
     ListRegions},
    {verb::post, "v2/systemsharedmemory/region/{}/register", Method("SystemSharedMemoryRegister"),
     Register},
    {verb::post, "v2/systemsharedmemory/region/{}/unregister",
     Method("SystemSharedMemoryUnregister"), Unregister},
    {verb::post, "v2/systemsharedmemory/unregister", Method("SystemSharedMemoryUnregister"),
     Unregister},
    {verb::get, "v2/cudasharedmemory/status", Method("CudaSharedMemoryStatus"), NoRegions},
    {verb::get, "v2/cudasharedmemory/region/{}/status", Method("CudaSharedMemoryStatus"),
     NoRegions},
    {verb::post, "v2/cudasharedmemory/region/{}/register", Method("CudaSharedMemoryRegister"),
     RegisterCuda},
    {verb::post, "v2/cudasharedmemory/region/{}/unregister", Method("CudaSharedMemoryUnregister"),
     AnswerNothing},
    {verb::post, "v2/cudasharedmemory/unregister", Method("CudaSharedMemoryUnregister"),
     AnswerNothing},
    {verb::get, "v2/trace/setting", Method("TraceSetting"), TraceSettings},
    {verb::post, "v2/trace/setting", Method("TraceSetting"), ChangeTraceSettings},
    {verb::get, "v2/models/{}/trace/setting", Method("TraceSetting"), TraceSettings},
    {verb::post, "v2/models/{}/trace/setting", Method("TraceSetting"), ChangeTraceSettings},
    {verb::get, "v2/logging", Method("LogSettings"), LogSettings},
    {verb::post, "v2/logging", Method("LogSettings"), ChangeLogSettings},
    {verb::post, "v1/classify", Method("Classify"), Vision<VisionTask::kClassification>},
    {verb::post, "v1/detect", Method("Detect"), Vision<VisionTask::kDetection>},
    {verb::post, "v1/segment", Method("Segment"), Vision<VisionTask::kSegmentation>},
};

// What a path that is not known belongs to, or a method that a path has not, is told to whoever may
// know of models; which methods a path has, to everyone.
ApiGroup GroupOf(const HttpRequest& request) {
  if (request.method == verb::options) return ApiGroup::kHealth;
  const verb method = request.method == verb::head ? verb::get : request.method;
  for (const Route& route : kRoutes) {
    if (route.method == method && Match(route.pattern, request.target.path)) return route.api.group;
  }
  return ApiGroup::kMetadata;
}

Caller CallerOf(const HttpContext& context, const HttpRequest& request) {
  std::vector<std::string_view> authorization;
  const auto [begin, end] = request.fields.equal_range(boost::beast::http::field::authorization);
  for (auto field = begin; field != end; ++field) {
    authorization.emplace_back(field->value().data(), field->value().size());
  }
  return context.api.authenticator().Identify({.protocol = Protocol::kHttp,
                                               .authorization = authorization,
                                               .certificate = request.certificate},
                                              GroupOf(request), context.groups);
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
  if (!request.caller) request.caller = CallerOf(context, request);
  const verb method = request.method == verb::head ? verb::get : request.method;
  std::string allowed;
  for (const Route& route : kRoutes) {
    std::optional<Names> names = Match(route.pattern, request.target.path);
    if (!names) continue;
    if (route.method == method) {
      // Inference requests are admitted where they are counted.
      if (route.api.group != ApiGroup::kInference) {
        const absl::Status admitted = request.caller->Admit(request.arrived);
        if (!admitted.ok()) return exchange->Answer(ErrorAnswer(admitted));
      }
      request.route = route.pattern;
      return route.run({context, std::move(exchange), *std::move(names)});
    }
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ",
                    route.method == verb::get ? "GET, HEAD" : "POST");
  }
  if (!request.caller->refused.ok()) {
    return exchange->Answer(ErrorAnswer(request.caller->refused));
  }
  if (allowed.empty()) {
    return exchange->Answer(ErrorAnswer(NotFound("http.path_unknown", "there is no such path")));
  }
  HttpAnswer answer =
      ErrorAnswer(InvalidArgument("http.method_not_allowed", "the path has other methods"));
  answer.fields.emplace_back("Allow", allowed);
  exchange->Answer(std::move(answer));
}

}  // namespace

HttpCheck MakeHttpCheck(HttpContext& context) {
  return [&context](HttpRequest& request) {
    Caller& caller = request.caller.emplace(CallerOf(context, request));
    const ApiGroup group = GroupOf(request);
    if (caller.refused.ok() && group == ApiGroup::kHealth && !IsShort(request)) {
      caller.refused = ResourceExhausted(
          "request.too_large",
          absl::StrCat("a body of more than ", limits::kMaxControlMessageBytes, " bytes"));
    } else if (group != ApiGroup::kHealth) {
      // A key's places are taken before its bodies are held.
      caller.refused = caller.Admit(context.api.clock().Now());
    }
    return caller.refused.ok();
  };
}

HttpHandler MakeHttpApi(HttpContext& context) {
  return [&context](ExchangePtr exchange) { Handle(context, std::move(exchange)); };
}

}  // namespace fovea
