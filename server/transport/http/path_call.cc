#include "server/transport/http/path_call.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/unique_json.h"
#include "server/core/request_memory.h"
#include "server/transport/http/contiguous.h"

namespace fovea {

HttpAnswer JsonAnswer(std::string text, boost::beast::http::status code) {
  return {
      .status = code, .fields = {{"Content-Type", "application/json"}}, .body = {std::move(text)}};
}

Caller CallerOf(const HttpContext& context, const HttpRequest& request, ApiGroup group) {
  std::vector<std::string_view> authorization;
  const auto [begin, end] = request.fields.equal_range(boost::beast::http::field::authorization);
  for (auto field = begin; field != end; ++field) {
    authorization.emplace_back(field->value().data(), field->value().size());
  }
  return context.api.authenticator().Identify({.protocol = Protocol::kHttp,
                                               .authorization = authorization,
                                               .certificate = request.certificate},
                                              group, context.groups);
}

absl::StatusOr<nlohmann::json> ReadObject(const PathCall& call, int64_t max_bytes) {
  // Two bytes are a value and what separates it from the next; a name is held twice.
  constexpr int64_t kParsedPerByte = 2 * sizeof(nlohmann::json);
  const HttpRequest& request = call.exchange->request();
  if (request.body_bytes == 0) return nlohmann::json::object();
  if (request.body_bytes > max_bytes) {
    return ResourceExhausted("request.too_large",
                             absl::StrCat("a body of more than ", max_bytes, " bytes"));
  }
  RequestMemory memory(call.api().memory());
  FOVEA_RETURN_IF_ERROR(memory.Take((1 + kParsedPerByte) * request.body_bytes));
  const ContiguousText text = Gather(request.body, request.body_bytes, 0);
  std::optional<nlohmann::json> object = ParseUniqueJson(text.text);
  if (!object || !object->is_object()) {
    return InvalidArgument("request.json", "the body is no JSON object, or names something twice");
  }
  return *std::move(object);
}

std::shared_ptr<const std::atomic<bool>> NoteGone(const PathCall& call) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  call.exchange->OnGone([gone] { *gone = true; });
  return gone;
}

}  // namespace fovea
