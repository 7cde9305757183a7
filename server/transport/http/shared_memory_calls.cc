#include "server/transport/http/shared_memory_calls.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/transport/http/message_json.h"
#include "server/transport/messages/model_messages.h"

namespace fovea::http_calls {
namespace {

// "{}", or the error.
void AnswerDone(const PathCall& call, const absl::Status& status) {
  call.Answer(status.ok() ? absl::StatusOr<std::string>("{}") : status);
}

}  // namespace

void Register(PathCall call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  if (!body.ok()) return call.Answer(body.status());
  SharedMemoryRegionInfo region{.name = call.Name(0)};
  for (const auto& [name, value] : body->items()) {
    const bool is_key = name == "key";
    if (value.is_null() || (!is_key && name != "offset" && name != "byte_size")) continue;
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

void Unregister(PathCall call) {
  call.api().UnregisterSharedMemory(call.Name(0));
  call.Answer("{}");
}

void ListRegions(PathCall call) {
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

void NoRegions(PathCall call) { call.Answer("[]"); }
void AnswerNothing(PathCall call) { call.Answer("{}"); }
void RegisterCuda(PathCall call) { call.Answer(ServerApi::RegisterCudaSharedMemory()); }

}  // namespace fovea::http_calls
