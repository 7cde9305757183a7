#include "server/transport/http/explanation_calls.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/cancellation.h"
#include "server/core/explanation.h"
#include "server/core/request_memory.h"
#include "server/transport/http/accepted_weight.h"
#include "server/transport/http/image_form.h"
#include "server/transport/http/message_json.h"
#include "server/transport/http/set_field.h"
#include "server/transport/messages/explanation_messages.h"
#include "server/transport/messages/infer_rules.h"

namespace fovea {
namespace {

using boost::beast::http::field;

absl::Status SetOption(std::string_view name, std::string_view value, v1::ExplainRequest* message) {
  if (name == "model") return SetField("model_name", value, message);
  if (name == "version") return SetField("model_version", value, message);
  if (name == "layer" || name == "head") {
    return SetField(name == "layer" ? "layers" : "heads", value, message);
  }
  if (name == "method" || name == "methods" || name == "picture_form") {
    const std::string upper = absl::AsciiStrToUpper({value.data(), value.size()});
    return SetField(name == "method" ? "methods" : name, upper, message);
  }
  return SetField(name, value, message);
}

// `memory` counts the image until the explanation is there.
absl::StatusOr<ExplainRequest> Receive(const PathCall& call, RequestMemory* memory) {
  HttpRequest& http = call.exchange->request();
  // What the body is unpacked and gathered into, until the image is taken out.
  RequestMemory reading(call.api().memory());
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes body,
                         UnpackBody(http, call.context.max_message_bytes, &reading));
  v1::ExplainRequest message;
  FOVEA_ASSIGN_OR_RETURN(
      const ImageFiles images,
      ReadImageForm(http, body, &reading, [&](std::string_view name, std::string_view value) {
        return SetOption(name, value, &message);
      }));
  if (images.files.size() != 1) {
    return InvalidArgument(
        "explain.bad_request",
        absl::StrCat("one image is explained at a time, and there are ", images.files.size()));
  }
  const ScatteredBytes& image = images.files.front();
  FOVEA_RETURN_IF_ERROR(memory->Take(static_cast<int64_t>(image.size())));
  message.mutable_image()->resize(image.size());
  image.CopyTo(0, image.size(), message.mutable_image()->data());
  http.body = {};
  return ReadExplainRequest(message);
}

// The picture, where there is one.
absl::StatusOr<HttpAnswer> PictureAnswer(Explanation explanation) {
  std::vector<std::string*> pictures;
  for (ExplainedMap& map : explanation.maps) {
    if (!map.png.empty()) pictures.push_back(&map.png);
  }
  if (!explanation.measures_plot.empty()) pictures.push_back(&explanation.measures_plot);
  if (pictures.size() != 1) {
    return InvalidArgument(
        "explain.not_one_picture",
        absl::StrCat("image/png holds one picture, and what is asked for makes ", pictures.size(),
                     ": accept application/json, or ask for "
                     "one method, layer and head"));
  }
  return HttpAnswer{.fields = {{"Content-Type", "image/png"}},
                    .body = {std::move(*pictures.front())}};
}

int64_t PictureBytes(const Explanation& explanation) {
  int64_t bytes = static_cast<int64_t>(explanation.measures_plot.size());
  for (const ExplainedMap& map : explanation.maps) {
    // A number has up to 16 characters in JSON.
    bytes += static_cast<int64_t>(map.png.size() + 16 * map.values.size());
  }
  return bytes;
}

absl::StatusOr<HttpAnswer> AnswerOf(Explanation explanation, bool as_picture, size_t most,
                                    RequestMemory* memory) {
  // As messages and as base64, or once.
  FOVEA_RETURN_IF_ERROR(memory->Take((as_picture ? 1 : 3) * PictureBytes(explanation)));
  if (as_picture) return PictureAnswer(std::move(explanation));
  std::string json = ToJson(ToMessage(std::move(explanation)));
  FOVEA_RETURN_IF_ERROR(CheckAnswerBytes(json.size(), most));
  memory->KeepOnly(static_cast<int64_t>(json.size()));
  return JsonAnswer(std::move(json));
}

void StartExplain(const PathCall& call, CancellationPtr cancellation) {
  const auto memory = std::make_shared<RequestMemory>(call.api().memory());
  absl::StatusOr<ExplainRequest> request = Receive(call, memory.get());
  if (!request.ok()) return call.exchange->Answer(ErrorAnswer(request.status()));
  const bool as_picture = WantsPng(call.exchange->request().Field(field::accept));
  call.api().Explain(
      *std::move(request), std::move(cancellation),
      [exchange = call.exchange, memory, as_picture,
       most = call.context.max_answer_bytes](absl::StatusOr<Explanation> explanation) {
        memory->Release();
        if (!explanation.ok()) return exchange->Answer(ErrorAnswer(explanation.status()));
        absl::StatusOr<HttpAnswer> answer = OrOutOfMemory(
            [&] { return AnswerOf(*std::move(explanation), as_picture, most, memory.get()); });
        if (!answer.ok()) return exchange->Answer(ErrorAnswer(answer.status()));
        exchange->Answer(*std::move(answer), [memory] { memory->Release(); });
      });
}

}  // namespace

void http_calls::Explain(PathCall call) {
  const auto cancellation = std::make_shared<Cancellation>();
  call.exchange->OnGone([cancellation] { cancellation->Cancel(); });
  HttpExchange& exchange = *call.exchange;
  exchange.Defer(
      [call = std::move(call), cancellation]() mutable { StartExplain(call, cancellation); });
}

}  // namespace fovea
