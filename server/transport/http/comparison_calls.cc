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
#include "server/core/mutex.h"
#include "server/core/quote.h"
#include "server/core/request_memory.h"
#include "server/transport/http/image_form.h"
#include "server/transport/http/message_json.h"
#include "server/transport/http/set_field.h"
#include "server/transport/messages/comparison_messages.h"

namespace fovea {
namespace {

// {"name": message} and the end of the line.
std::string Line(std::string_view name, const google::protobuf::Message& message) {
  return absl::StrCat("{\"", std::string(name), "\":", ToJson(message), "}\n");
}

// The answer of a call that tells how it goes on, in lines. One is written at a time: of the
// updates that come meanwhile the latest is next, and the last line is written always. Thread-safe.
class UpdateLines {
 public:
  explicit UpdateLines(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}

  // `self` keeps this alive while a line is on its way.
  static void Tell(const std::shared_ptr<UpdateLines>& self, std::string line) {
    MutexLock lock(self->mutex_);
    self->next_ = std::move(line);
    if (!self->writing_) self->Write(self);
  }

  // Nothing is told afterwards. Where nothing was, the answer is an ordinary one.
  static void End(const std::shared_ptr<UpdateLines>& self, absl::StatusOr<std::string> line) {
    MutexLock lock(self->mutex_);
    self->next_.reset();
    if (!self->begun_) {
      self->exchange_->Answer(line.ok() ? Head(*std::move(line)) : ErrorAnswer(line.status()));
      return;
    }
    self->last_ = line.ok() ? *std::move(line) : ErrorLine(line.status());
    if (!self->writing_) self->Write(self);
  }

 private:
  static HttpAnswer Head(std::string line) {
    // Proxies that gather an answer before they pass it on would hold progress back.
    return {.fields = {{"Content-Type", "application/x-ndjson"}, {"X-Accel-Buffering", "no"}},
            .body = {std::move(line)}};
  }
  static std::string ErrorLine(const absl::Status& status) {
    std::string line;
    for (const std::string& part : ErrorAnswer(status).body) line += part;
    return line + "\n";
  }

  void Write(const std::shared_ptr<UpdateLines>& self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (last_) {
      exchange_->AnswerLast(*std::exchange(last_, std::nullopt));
      return;
    }
    writing_ = next_.has_value();
    if (!writing_) return;
    std::string line = *std::exchange(next_, std::nullopt);
    const auto written = [self] {
      MutexLock lock(self->mutex_);
      self->Write(self);
    };
    if (std::exchange(begun_, true)) {
      exchange_->AnswerNext(std::move(line), written);
    } else {
      exchange_->AnswerFirst(Head(std::move(line)), written);
    }
  }

  const std::shared_ptr<HttpExchange> exchange_;
  Mutex mutex_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::string> next_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> last_ ABSL_GUARDED_BY(mutex_);
};

// NAME or NAME/VERSION.
v1::Variant VariantOf(std::string_view model, std::string_view attention) {
  const size_t slash = model.find('/');
  v1::Variant variant;
  variant.set_model_name(std::string(model.substr(0, slash)));
  if (slash != model.npos) variant.set_model_version(std::string(model.substr(slash + 1)));
  variant.set_attention(std::string(attention));
  return variant;
}

// Besides those that `message` has.
absl::Status AddVariants(const std::vector<std::string>& models,
                         const std::vector<std::string>& attentions, v1::CompareRequest* message) {
  const size_t each = attentions.size() + (attentions.size() <= 1 ? 1 : 0);
  const size_t all = static_cast<size_t>(message->variants_size()) + models.size() * each;
  if (all > static_cast<size_t>(limits::kMaxComparedVariants)) {
    return InvalidArgument("compare.bad_request",
                           absl::StrCat("models and attentions make ", all, " variants, more than ",
                                        limits::kMaxComparedVariants));
  }
  for (const std::string& model : models) {
    if (attentions.size() <= 1) *message->add_variants() = VariantOf(model, "");
    for (const std::string& attention : attentions) {
      *message->add_variants() = VariantOf(model, attention);
    }
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
      const size_t colon = std::min(value.find(':'), value.size());  // no name of a model has one
      *message.add_variants() =
          VariantOf(value.substr(0, colon), value.substr(std::min(colon + 1, value.size())));
    } else {
      return SetField(name, value, &message);
    }
    return absl::OkStatus();
  };
  FOVEA_ASSIGN_OR_RETURN(const ImageFiles images, ReadImageForm(http, body, &reading, take));
  FOVEA_RETURN_IF_ERROR(AddVariants(models, attentions, &message));
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
        UpdateLines::Tell(lines, Line("progress", message));
      },
      [lines, memory](absl::StatusOr<Comparison> comparison) {
        memory->Release();
        if (!comparison.ok()) return UpdateLines::End(lines, comparison.status());
        v1::Comparison message;
        FillComparison(*comparison, &message);
        UpdateLines::End(lines, Line("comparison", message));
      });
}

}  // namespace

void http_calls::Compare(PathCall call) {
  const auto cancellation = std::make_shared<Cancellation>();
  call.exchange->OnGone([cancellation] { cancellation->Cancel(); });
  HttpExchange& exchange = *call.exchange;
  exchange.Defer(
      [call = std::move(call), cancellation]() mutable { StartCompare(call, cancellation); });
}

}  // namespace fovea
