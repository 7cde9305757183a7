#include "server/transport/http/comparison_calls.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/cancellation.h"
#include "server/core/comparison.h"
#include "server/core/quote.h"
#include "server/core/request_memory.h"
#include "server/core/variant_serving.h"
#include "server/transport/http/image_form.h"
#include "server/transport/http/message_json.h"
#include "server/transport/http/set_field.h"
#include "server/transport/http/update_lines.h"
#include "server/transport/messages/comparison_messages.h"

namespace fovea {
namespace {

// {"name": message} and the end of the line.
std::string Line(std::string_view name, const google::protobuf::Message& message) {
  return absl::StrCat("{\"", std::string(name), "\":", ToJson(message), "}\n");
}

// NAME or NAME/VERSION.
v1::Variant VariantOf(std::string_view model, std::string_view attention) {
  const size_t slash = model.find('/');
  v1::Variant variant;
  variant.set_model_name(std::string(model.substr(0, slash)));
  if (slash != model.npos) variant.set_model_version(std::string(model.substr(slash + 1)));
  variant.set_attention(std::string(attention));
  return variant;
}

using Variants = google::protobuf::RepeatedPtrField<v1::Variant>;

// NAME[/VERSION][:ATTENTION].
v1::Variant ReadVariant(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());  // no name of a model has one
  return VariantOf(text.substr(0, colon), text.substr(std::min(colon + 1, text.size())));
}

// Adds each attention over each model, where there is none the model; `own_first`: of one
// attention, the model before it.
absl::Status AddVariants(const std::vector<std::string>& models,
                         const std::vector<std::string>& attentions, bool own_first,
                         Variants* variants) {
  const bool own = attentions.empty() || (own_first && attentions.size() == 1);
  const size_t each = attentions.size() + (own ? 1 : 0);
  const size_t all = static_cast<size_t>(variants->size()) + models.size() * each;
  if (all > static_cast<size_t>(limits::kMaxComparedVariants)) {
    return InvalidArgument("compare.bad_request",
                           absl::StrCat("models and attentions make ", all, " variants, more than ",
                                        limits::kMaxComparedVariants));
  }
  for (const std::string& model : models) {
    if (own) *variants->Add() = VariantOf(model, "");
    for (const std::string& attention : attentions) *variants->Add() = VariantOf(model, attention);
  }
  return absl::OkStatus();
}

// `memory` counts the images until the comparison is over.
absl::StatusOr<CompareRequest> Receive(const PathCall& call, RequestMemory* memory) {
  HttpRequest& http = call.exchange->request();
  // What the body is unpacked and gathered into, until the images are taken out.
  RequestMemory reading(call.api().memory());
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes body,
                         UnpackBody(http, call.context.max_message_bytes, &reading));
  v1::CompareRequest message;
  std::vector<std::string> models, attentions;
  const auto take = [&](std::string_view name, std::string_view value) -> absl::Status {
    if (name == "model") {
      models.emplace_back(value);
    } else if (name == "attention") {
      attentions.emplace_back(value);
    } else if (name == "variant") {
      *message.add_variants() = ReadVariant(value);
    } else {
      return SetField(name, value, &message);
    }
    return absl::OkStatus();
  };
  FOVEA_ASSIGN_OR_RETURN(const ImageFiles images, ReadImageForm(http, body, &reading, take));
  FOVEA_RETURN_IF_ERROR(
      AddVariants(models, attentions, /*own_first=*/true, message.mutable_variants()));
  int64_t bytes = 0;
  for (const ScatteredBytes& image : images.files) bytes += static_cast<int64_t>(image.size());
  FOVEA_RETURN_IF_ERROR(memory->Take(bytes));
  for (const ScatteredBytes& image : images.files) {
    std::string& file = *message.add_images();
    for (const ScatteredBytes::Piece piece : image.pieces()) {
      file.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
  }
  http.body = {};
  return ReadCompareRequest(message);
}

void StartCompare(const PathCall& call, CancellationPtr cancellation) {
  const auto memory = std::make_shared<RequestMemory>(call.api().memory());
  absl::StatusOr<CompareRequest> request = Receive(call, memory.get());
  if (!request.ok()) return call.exchange->Answer(ErrorAnswer(request.status()));
  const auto lines = std::make_shared<UpdateLines>(call.exchange);
  call.api().Compare(
      *std::move(request), std::move(cancellation),
      [lines](const ComparisonProgress& progress) {
        v1::ComparisonProgress message;
        FillProgress(progress, &message);
        lines->Tell(Line("progress", message));
      },
      [lines, memory](absl::StatusOr<Comparison> comparison) {
        memory->Release();
        if (!comparison.ok()) return lines->End(comparison.status());
        v1::Comparison message;
        FillComparison(*comparison, &message);
        lines->End(Line("comparison", message));
      });
}

absl::StatusOr<ServeRequest> ReadServe(const HttpRequest& http) {
  if (http.body_bytes > 0) {
    return InvalidArgument("request.option",
                           "the variants to serve are named in the query, and a body is not read");
  }
  v1::ServeRequest message;
  std::vector<std::string> models, attentions;
  for (const auto& [name, value] : http.target.query) {
    if (name == "model") {
      models.push_back(value);
    } else if (name == "attention") {
      attentions.push_back(value);
    } else if (name == "variant") {
      *message.add_variants() = ReadVariant(value);
    } else {
      return InvalidArgument("request.option", absl::StrCat("there is no option ", InQuotes(name)));
    }
  }
  FOVEA_RETURN_IF_ERROR(
      AddVariants(models, attentions, /*own_first=*/false, message.mutable_variants()));
  return ReadServeRequest(message);
}

}  // namespace

void http_calls::Compare(PathCall call) {
  const auto cancellation = std::make_shared<Cancellation>();
  call.exchange->OnGone([cancellation] { cancellation->Cancel(); });
  HttpExchange& exchange = *call.exchange;
  exchange.Defer(
      [call = std::move(call), cancellation]() mutable { StartCompare(call, cancellation); });
}

void http_calls::Serve(PathCall call) {
  const auto cancellation = std::make_shared<Cancellation>();
  call.exchange->OnGone([cancellation] { cancellation->Cancel(); });
  absl::StatusOr<ServeRequest> request = ReadServe(call.exchange->request());
  if (!request.ok()) return call.exchange->Answer(ErrorAnswer(request.status()));
  const auto lines = std::make_shared<UpdateLines>(call.exchange);
  call.api().Serve(
      *std::move(request), cancellation,
      [lines](const ComparisonProgress& progress) {
        v1::ComparisonProgress message;
        FillProgress(progress, &message);
        lines->Tell(Line("progress", message));
      },
      [lines](const std::vector<ServedVariant>& variants) {
        v1::ServedVariants message;
        FillServed(variants, &message);
        lines->Tell(Line("served", message));
      },
      [lines](const absl::Status& why) { lines->End(why); });
}

}  // namespace fovea
