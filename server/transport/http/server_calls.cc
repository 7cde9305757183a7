#include "server/transport/http/server_calls.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "server/transport/http/json_text.h"
#include "server/transport/http/message_json.h"
#include "server/transport/http/settings_json.h"
#include "server/transport/messages/model_messages.h"

namespace fovea::http_calls {
namespace {

using boost::beast::http::status;
using nlohmann::json;

void AnswerReady(const PathCall& call, bool ready, std::string text) {
  HttpAnswer answer = JsonAnswer(std::move(text), ready ? status::ok : status::service_unavailable);
  if (!ready) answer.fields.emplace_back("Retry-After", "1");
  call.exchange->Answer(std::move(answer));
}

template <typename Message, void (*kFill)(const ModelView&, Message*)>
void TellOfModel(PathCall call) {
  const auto model = call.api().FindModel(call.Name(0), call.Name(1));
  if (!model.ok()) return call.Answer(model.status());
  Message message;
  kFill(**model, &message);
  call.Answer(ToJson(message));
}

// After `changes`, an object.
void TellTraceSettings(const PathCall& call, const json& changes) {
  call.Answer(
      AnswerTraceSettings(call.api(), call.Name(0), changes, *call.exchange->request().caller));
}
void TellLogSettings(const PathCall& call, const json& changes) {
  call.Answer(AnswerLogSettings(call.api(), changes, *call.exchange->request().caller));
}

}  // namespace

void Live(PathCall call) { call.Answer(R"({"live":true})"); }

void Ready(PathCall call) {
  if (call.api().serving()) return AnswerReady(call, true, R"({"ready":true})");
  json answer = {{"ready", false}};
  const NotReady why = call.api().WhyNotReady();
  if (!why.reason.empty()) answer["reason"] = why.reason;
  const bool may_list =
      CallerOf(call.context, call.exchange->request(), Method("RepositoryIndex").group)
          .refused.ok();
  if (may_list && !why.models.empty()) {
    for (const IndexEntry& model : why.models) {
      answer["models"].push_back(
          {{"name", model.name}, {"state", ModelStateName(model.state)}, {"reason", model.reason}});
    }
  }
  AnswerReady(call, false, answer.dump(-1, ' ', false, json::error_handler_t::replace));
}

void ModelReady(PathCall call) {
  const absl::StatusOr<bool> ready = call.api().ModelReady(call.Name(0), call.Name(1));
  if (!ready.ok()) return call.Answer(ready.status());
  std::string name;
  AppendText(call.Name(0), &name);
  AnswerReady(call, *ready,
              absl::StrCat(R"({"name":)", name, R"(,"ready":)", *ready ? "true" : "false", "}"));
}

void TellOfServer(PathCall call) {
  inference::ServerMetadataResponse response;
  FillServerMetadata(call.api().Metadata(), &response);
  response.add_extensions("binary_tensor_data");
  call.Answer(ToJson(response));
}

void TellMetadata(PathCall call) {
  TellOfModel<inference::ModelMetadataResponse, FillMetadata>(std::move(call));
}

void TellConfig(PathCall call) { TellOfModel<inference::ModelConfig, FillConfig>(std::move(call)); }

void Statistics(PathCall call) {
  const auto models = call.api().Statistics(call.Name(0), call.Name(1));
  if (!models.ok()) return call.Answer(models.status());
  inference::ModelStatisticsResponse response;
  for (const auto& model : *models) FillStatistics(model, response.add_model_stats());
  call.Answer(ToJson(response));
}

void TellMetrics(PathCall call) {
  if (call.context.metrics == nullptr) {
    return call.Answer(Unimplemented("metrics.none", "this server counts nothing"));
  }
  HttpExchange& exchange = *call.exchange;
  exchange.Defer([call = std::move(call)] {
    call.exchange->Answer({.fields = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                           .body = {call.context.metrics()}});
  });
}

// Settings. A GET changes nothing, whatever its body.

void TraceSettings(PathCall call) { TellTraceSettings(call, json::object()); }
void ChangeTraceSettings(PathCall call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  body.ok() ? TellTraceSettings(call, *body) : call.Answer(body.status());
}
void LogSettings(PathCall call) { TellLogSettings(call, json::object()); }
void ChangeLogSettings(PathCall call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  body.ok() ? TellLogSettings(call, *body) : call.Answer(body.status());
}

}  // namespace fovea::http_calls
