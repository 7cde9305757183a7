#include "server/transport/http/comparison_calls.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "server/core/cancellation.h"
#include "server/core/comparison.h"
#include "server/core/quote.h"
#include "server/core/request_memory.h"
#include "server/core/sweep.h"
#include "server/core/variant_serving.h"
#include "server/transport/http/image_form.h"
#include "server/transport/http/message_json.h"
#include "server/transport/http/named_variants.h"
#include "server/transport/http/set_field.h"
#include "server/transport/http/update_lines.h"
#include "server/transport/messages/comparison_messages.h"
#include "server/transport/messages/sweep_messages.h"
#include "server/transport/messages/variant_messages.h"

namespace fovea {
namespace {

// {"name": message} and the end of the line.
std::string Line(std::string_view name, const google::protobuf::Message& message) {
  return absl::StrCat("{\"", std::string(name), "\":", ToJson(message), "}\n");
}

void Append(const ScatteredBytes& image, std::string* file) {
  for (const ScatteredBytes::Piece piece : image.pieces()) {
    file->append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
}

// What the body is: options are given to `take`, images to `put`, once `memory` counts them until
// the experiment is over.
template <typename Take, typename Put>
absl::Status ReadBody(const PathCall& call, RequestMemory* memory, Take take, Put put) {
  HttpRequest& http = call.exchange->request();
  // What the body is unpacked and gathered into, until the images are taken out.
  RequestMemory reading(call.api().memory());
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes body,
                         UnpackBody(http, call.context.max_message_bytes, &reading));
  FOVEA_ASSIGN_OR_RETURN(const ImageFiles images, ReadImageForm(http, body, &reading, take));
  int64_t bytes = 0;
  for (const ScatteredBytes& image : images.files) bytes += static_cast<int64_t>(image.size());
  FOVEA_RETURN_IF_ERROR(memory->Take(bytes));
  FOVEA_RETURN_IF_ERROR(put(images));
  http.body = {};
  return absl::OkStatus();
}

absl::StatusOr<CompareRequest> ReceiveCompare(const PathCall& call, RequestMemory* memory) {
  v1::CompareRequest message;
  NamedVariants variants;
  const auto take = [&](std::string_view name, std::string_view value) {
    return variants.Take(name, value) ? absl::OkStatus() : SetField(name, value, &message);
  };
  const auto put = [&](const ImageFiles& images) -> absl::Status {
    for (const ScatteredBytes& image : images.files) Append(image, message.add_images());
    return variants.AddTo(message.mutable_variants(), /*own_before_one=*/true,
                          "compare.bad_request");
  };
  FOVEA_RETURN_IF_ERROR(ReadBody(call, memory, take, put));
  return ReadCompareRequest(message);
}

absl::Status SetSweepOption(std::string_view name, std::string_view value,
                            v1::SweepRequest* message) {
  if (name == "over") {
    return SetField(name, absl::AsciiStrToUpper({value.data(), value.size()}), message);
  }
  if (name != "values") return SetField(name, value, message);
  for (const absl::string_view each :
       absl::StrSplit(absl::string_view(value.data(), value.size()), ',')) {
    message->add_values(std::string(each));
  }
  return absl::OkStatus();
}

absl::StatusOr<SweepRequest> ReceiveSweep(const PathCall& call, RequestMemory* memory) {
  v1::SweepRequest message;
  NamedVariants variants;
  const auto take = [&](std::string_view name, std::string_view value) {
    return variants.Take(name, value) ? absl::OkStatus() : SetSweepOption(name, value, &message);
  };
  const auto put = [&](const ImageFiles& images) -> absl::Status {
    if (images.files.size() > 1) {
      return InvalidArgument(
          "sweep.bad_request",
          absl::StrCat("a sweep takes one image or none, and there are ", images.files.size()));
    }
    for (const ScatteredBytes& image : images.files) Append(image, message.mutable_image());
    return variants.AddTo(message.mutable_variants(), /*own_before_one=*/false,
                          "sweep.bad_request");
  };
  FOVEA_RETURN_IF_ERROR(ReadBody(call, memory, take, put));
  return ReadSweepRequest(message);
}

ProgressListener TellProgress(const std::shared_ptr<UpdateLines>& lines) {
  return [lines](const ComparisonProgress& progress) {
    v1::ComparisonProgress message;
    FillProgress(progress, &message);
    lines->Tell(Line("progress", message));
  };
}

void StartCompare(const PathCall& call, CancellationPtr cancellation) {
  const auto memory = std::make_shared<RequestMemory>(call.api().memory());
  absl::StatusOr<CompareRequest> request = ReceiveCompare(call, memory.get());
  if (!request.ok()) return call.exchange->Answer(ErrorAnswer(request.status()));
  const auto lines = std::make_shared<UpdateLines>(call.exchange);
  call.api().Compare(*std::move(request), std::move(cancellation), TellProgress(lines),
                     [lines, memory](absl::StatusOr<Comparison> comparison) {
                       memory->Release();
                       if (!comparison.ok()) return lines->End(comparison.status());
                       v1::Comparison message;
                       FillComparison(*comparison, &message);
                       lines->End(Line("comparison", message));
                     });
}

void StartSweep(const PathCall& call, CancellationPtr cancellation) {
  const auto memory = std::make_shared<RequestMemory>(call.api().memory());
  absl::StatusOr<SweepRequest> request = ReceiveSweep(call, memory.get());
  if (!request.ok()) return call.exchange->Answer(ErrorAnswer(request.status()));
  const auto lines = std::make_shared<UpdateLines>(call.exchange);
  call.api().Sweep(*std::move(request), std::move(cancellation), TellProgress(lines),
                   [lines, memory](absl::StatusOr<Sweep> sweep) {
                     memory->Release();
                     if (!sweep.ok()) return lines->End(sweep.status());
                     v1::Sweep message;
                     FillSweep(*sweep, &message);
                     lines->End(Line("sweep", message));
                   });
}

absl::StatusOr<ServeRequest> ReceiveServe(const HttpRequest& http) {
  if (http.body_bytes > 0) {
    return InvalidArgument("request.option",
                           "the variants to serve are named in the query, and a body is not read");
  }
  NamedVariants variants;
  for (const auto& [name, value] : http.target.query) {
    if (!variants.Take(name, value)) return NoSuchOption(name);
  }
  v1::ServeRequest message;
  FOVEA_RETURN_IF_ERROR(
      variants.AddTo(message.mutable_variants(), /*own_before_one=*/false, "serve.bad_request"));
  return ReadServeRequest(message);
}

void StartServe(const PathCall& call, CancellationPtr cancellation) {
  absl::StatusOr<ServeRequest> request = ReceiveServe(call.exchange->request());
  if (!request.ok()) return call.exchange->Answer(ErrorAnswer(request.status()));
  const auto lines = std::make_shared<UpdateLines>(call.exchange);
  call.api().Serve(
      *std::move(request), std::move(cancellation), TellProgress(lines),
      [lines](const std::vector<ServedVariant>& variants) {
        v1::ServedVariants message;
        FillServed(variants, &message);
        lines->Tell(Line("served", message));
      },
      [lines](const absl::Status& why) { lines->End(why); });
}

// Off the connection's thread, and cancelled when the caller goes.
void Begin(PathCall call, void (*start)(const PathCall& call, CancellationPtr cancellation)) {
  const auto cancellation = std::make_shared<Cancellation>();
  call.exchange->OnGone([cancellation] { cancellation->Cancel(); });
  HttpExchange& exchange = *call.exchange;
  exchange.Defer([call = std::move(call), cancellation, start] { start(call, cancellation); });
}

}  // namespace

void http_calls::Compare(PathCall call) { Begin(std::move(call), StartCompare); }

void http_calls::Sweep(PathCall call) { Begin(std::move(call), StartSweep); }

void http_calls::Serve(PathCall call) { Begin(std::move(call), StartServe); }

}  // namespace fovea
