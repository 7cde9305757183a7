#include "server/transport/http/repository_calls.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/transport/http/message_json.h"
#include "server/transport/http/read_load_call.h"
#include "server/transport/messages/model_messages.h"

namespace fovea::http_calls {

using nlohmann::json;

void ListModels(PathCall call) {
  AnswerLater<ServerApi::RepositoryIndex>(
      call,
      [&](auto caller) { call.api().ListRepository({.ready_only = true}, std::move(caller)); },
      [](const ServerApi::RepositoryIndex& entries) {
        std::set<std::string> names;  // each has an entry for each of its versions
        for (const IndexEntry& entry : *entries) names.insert(entry.name);
        return json{{"models", names}}.dump();
      });
}

void Index(PathCall call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  if (!body.ok()) return call.Answer(body.status());
  const json ready = body->value("ready", json());
  if (!ready.is_null() && !ready.is_boolean()) {
    return call.Answer(InvalidArgument("request.json", "'ready' is neither true nor false"));
  }
  AnswerLater<ServerApi::RepositoryIndex>(
      call,
      [&](auto caller) {
        call.api().ListRepository({.ready_only = ready.is_boolean() && ready.get<bool>()},
                                  std::move(caller));
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

void Load(PathCall call) {
  const bool is_slow = call.exchange->request().body_bytes >= limits::kSlowHttpBodyBytes;
  const auto read = [call, gone = NoteGone(call)] {
    absl::StatusOr<LoadCall> load = ReadLoadCall(call.exchange->request(), call.api().memory());
    if (!load.ok()) return call.Answer(load.status());
    call.exchange->request().body = {};  // files are copied, and a load may take long
    load->model_name = call.Name(0);
    AnswerLater<absl::Status>(
        call, gone, [&](auto caller) { call.api().LoadModel(*std::move(load), std::move(caller)); },
        [](const absl::Status&) { return "{}"; });
  };
  is_slow ? call.exchange->Defer(read) : read();
}

void Unload(PathCall call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  if (!body.ok()) return call.Answer(body.status());
  AnswerLater<absl::Status>(
      call,
      [&](auto caller) { call.api().UnloadModel({.model_name = call.Name(0)}, std::move(caller)); },
      [](const absl::Status&) { return "{}"; });
}

}  // namespace fovea::http_calls
