#include "server/transport/http/infer_http.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/tracing/trace_context.h"
#include "server/transport/http/accepted_weight.h"
#include "server/transport/http/http_status.h"
#include "server/transport/http/image_form.h"
#include "server/transport/http/message_json.h"
#include "server/transport/http/read_infer_request.h"
#include "server/transport/http/set_field.h"
#include "server/transport/http/write_infer_response.h"
#include "server/transport/messages/infer_rules.h"
#include "server/transport/messages/shared_tensors.h"
#include "server/transport/messages/vision_messages.h"

namespace fovea {
namespace {

namespace beast = boost::beast;
using beast::http::field;

constexpr char kHeaderLength[] = "Inference-Header-Content-Length";
constexpr char kRequestId[] = "X-Request-Id";
constexpr char kExperimentKey[] = "fovea-experiment-key";
constexpr char kTraceParent[] = "traceparent";
constexpr char kTraceState[] = "tracestate";
// What JSON usually takes at most of a byte of protobuf: a float of five bytes with its tag becomes
// a name and its digits. Fields that are zero are written too, and are counted when they are there.
constexpr int64_t kJsonPerByte = 8;

// A value of a header: nothing in it that ends a line.
bool IsPrintable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// The receipt's times, in milliseconds (W3C Server Timing).
std::string ServerTiming(const Receipt& receipt) {
  std::string timing;
  const auto add = [&timing](std::string_view name, Nanos took) {
    absl::StrAppendFormat(&timing, "%s%s;dur=%.3f", timing.empty() ? "" : ", ", std::string(name),
                          static_cast<double>(took) / kMillisecond);
  };
  for (int i = 0; i < kStageCount; ++i) add(kStageNames[i], receipt.stages[static_cast<Stage>(i)]);
  if (receipt.device_times) {
    add("h2d", receipt.device_times->h2d);
    add("kernels", receipt.device_times->kernels);
    add("d2h", receipt.device_times->d2h);
  }
  return timing;
}

std::vector<std::string_view> ValuesOf(const HttpRequest& request, const char* name) {
  std::vector<std::string_view> values;
  const auto [begin, end] = request.fields.equal_range(name);
  for (auto value = begin; value != end; ++value) {
    values.emplace_back(value->value().data(), value->value().size());
  }
  return values;
}

RequestOrigin OriginOf(const HttpRequest& request) {
  RequestOrigin origin{.trace = {},
                       .route = request.route,
                       .tls = request.tls,
                       .experiment_key = std::string(request.Field(kExperimentKey))};
  const std::vector<std::string_view> parents = ValuesOf(request, kTraceParent);
  if (!parents.empty()) {
    origin.trace.context = ReadTraceContext(parents, ValuesOf(request, kTraceState));
  }
  return origin;
}

// One request from its exchange to its answer. Its closures keep it alive.
class HttpCall : public std::enable_shared_from_this<HttpCall> {
 public:
  using Read = std::function<absl::Status(const ReceivedBytes& body, InferenceRequest& request,
                                          CheckModel check_model)>;
  using Write = std::function<absl::StatusOr<HttpAnswer>(InferenceResponse& response)>;

  // `method` is a constant.
  HttpCall(HttpContext& context, std::shared_ptr<HttpExchange> exchange, std::string_view method)
      : context_(context),
        exchange_(std::move(exchange)),
        call_(context.api, *std::move(exchange_->request().caller), method,
              exchange_->request().arrived, kNever, OriginOf(exchange_->request())) {}

  void Run(Read read, Write write) {
    exchange_->OnGone([self = shared_from_this()] { self->call_.Cancel(); });
    const bool is_slow = request().body_bytes >= limits::kSlowHttpBodyBytes ||
                         !request().Field(field::content_encoding).empty() ||
                         context_.api.shared_memory() != nullptr;  // a short head names long inputs
    if (!is_slow) return RunNow(read, std::move(write));
    exchange_->Defer(
        [self = shared_from_this(), read = std::move(read), write = std::move(write)]() mutable {
          self->RunNow(read, std::move(write));
        });
  }

  HttpContext& context() { return context_; }
  InferenceCall& call() { return call_; }
  HttpRequest& request() { return exchange_->request(); }

 private:
  void RunNow(const Read& read, Write write) {
    call_.Run(
        request().body_bytes,
        [&](InferenceRequest& inference, CheckModel check_model) -> absl::Status {
          const std::string_view id = request().Field(kRequestId);
          FOVEA_RETURN_IF_ERROR(CheckRequestId(id));
          inference.id = std::string(id);
          FOVEA_ASSIGN_OR_RETURN(
              const ReceivedBytes body,
              UnpackBody(request(), context_.max_message_bytes, inference.memory));
          const absl::Status whole = read(body, inference, check_model);
          request().body = {};  // what is in use stays
          FOVEA_RETURN_IF_ERROR(whole);
          return shared_outputs_.Find(inference);
        },
        [this, write = std::move(write)](InferenceResponse& response) -> absl::StatusOr<int64_t> {
          FOVEA_RETURN_IF_ERROR(shared_outputs_.Write(response));
          FOVEA_ASSIGN_OR_RETURN(answer_, write(response));
          answer_.fields.emplace_back("Server-Timing", ServerTiming(response.receipt));
          return BodyBytes(answer_);
        },
        [self = shared_from_this()](const absl::Status& status, const std::string& id) {
          self->Answer(status, id);
        });
  }

  void Answer(const absl::Status& status, const std::string& id) {
    if (!status.ok()) answer_ = ErrorAnswer(WithHint(status), id);
    if (!id.empty() && IsPrintable(id)) answer_.fields.emplace_back(kRequestId, id);
    if (std::string trace = call_.traceparent(); !trace.empty()) {
      answer_.fields.emplace_back(kTraceParent, std::move(trace));
    }
    call_.Answered();
    exchange_->Answer(std::move(answer_), [self = shared_from_this()] { self->call_.Release(); });
  }

  // Names what curl's -d does to a picture, of which it leaves out the line ends.
  absl::Status WithHint(const absl::Status& status) {
    const std::string reason = ReasonOf(status);
    if (!reason.starts_with("image.") ||
        request().Field(field::content_type) != "application/x-www-form-urlencoded") {
      return status;
    }
    return MakeError(status.code(), reason,
                     absl::StrCat(std::string(status.message()),
                                  "; curl sends a file as it is by --data-binary, not by -d"));
  }

  HttpContext& context_;
  const std::shared_ptr<HttpExchange> exchange_;
  InferenceCall call_;
  SharedOutputs shared_outputs_;
  HttpAnswer answer_;  // until it is sent
};

absl::StatusOr<HttpAnswer> TensorAnswer(HttpCall& call, const OutputForms& forms,
                                        InferenceResponse& response) {
  FOVEA_RETURN_IF_ERROR(call.call().TakeAnswerMemory(JsonBytes(response, forms)));
  FOVEA_ASSIGN_OR_RETURN(InferBody body,
                         WriteInferResponse(response, forms, call.context().api.clock(),
                                            call.context().max_answer_bytes));
  HttpAnswer answer{.body = std::move(body.parts)};
  if (body.binary) {
    answer.fields = {{"Content-Type", "application/octet-stream"},
                     {kHeaderLength, absl::StrCat(body.json_bytes)}};
  } else {
    answer.fields = {{"Content-Type", "application/json"}};
  }
  return answer;
}

// Sets an option by its name in a query or a form.
template <typename Message>
absl::Status SetOption(std::string_view name, std::string_view value, InferenceRequest& request,
                       Message* message) {
  if (name == "timeout_us") {
    uint64_t timeout = 0;
    if (!absl::SimpleAtoi(absl::string_view(value.data(), value.size()), &timeout)) {
      return NoCount(name);
    }
    request.LimitTime(timeout);
    return absl::OkStatus();
  }
  if (name == "model") name = "model_name";
  if (name == "version") name = "model_version";
  return SetField(name, value, message);
}

// The drawing, or the results as `Response`, in JSON.
template <typename Response>
absl::StatusOr<HttpAnswer> VisionAnswer(HttpCall& call, InferenceResponse& response) {
  const auto encoded = [&] {
    response.receipt.stages.EndStage(Stage::kEncode, call.context().api.clock().Now());
  };
  if (!response.drawing.empty()) {
    encoded();
    return HttpAnswer{.fields = {{"Content-Type", "image/png"}},
                      .body = {std::move(response.drawing)}};
  }
  Response message;
  FillAnswer(response, &message);
  const size_t bytes = message.ByteSizeLong();
  FOVEA_RETURN_IF_ERROR(CheckAnswerBytes(bytes, call.context().max_answer_bytes));
  const int64_t expected = kJsonPerByte * static_cast<int64_t>(bytes);
  FOVEA_RETURN_IF_ERROR(call.call().TakeAnswerMemory(expected));
  std::string json = ToJson(message);
  FOVEA_RETURN_IF_ERROR(call.call().TakeAnswerMemory(
      std::max<int64_t>(static_cast<int64_t>(json.size()) - expected, 0)));
  // The receipt holds the time of everything before it.
  encoded();
  v1::Receipt receipt;
  FillReceipt(response.receipt, &receipt);
  json.back() = ',';
  return HttpAnswer{.fields = {{"Content-Type", "application/json"}},
                    .body = {std::move(json), absl::StrCat("\"receipt\":", ToJson(receipt), "}")}};
}

template <typename Request, typename Response>
void RunVision(HttpContext& context, std::shared_ptr<HttpExchange> exchange,
               std::string_view method) {
  const auto call = std::make_shared<HttpCall>(context, std::move(exchange), method);
  call->Run(
      [call = call.get()](const ReceivedBytes& body, InferenceRequest& request,
                          CheckModel check_model) -> absl::Status {
        Request message;
        FOVEA_ASSIGN_OR_RETURN(ImageFiles images,
                               ReadImageForm(call->request(), body, request.memory,
                                             [&](std::string_view name, std::string_view value) {
                                               return SetOption(name, value, request, &message);
                                             }));
        const auto check_named = [&](const InferenceRequest& head) -> absl::Status {
          if (!head.model_name.empty()) return check_model(head);
          return InvalidArgument("request.no_model", "the request names no model: ?model=NAME");
        };
        FOVEA_RETURN_IF_ERROR(ReadRequest(message, images.files.size(), check_named, &request));
        request.input = std::move(images);
        request.draw = WantsPng(call->request().Field(field::accept));
        return absl::OkStatus();
      },
      [call = call.get()](InferenceResponse& response) {
        return VisionAnswer<Response>(*call, response);
      });
}

}  // namespace

void StartInfer(HttpContext& context, std::shared_ptr<HttpExchange> exchange, std::string model,
                std::string version) {
  const auto call = std::make_shared<HttpCall>(context, std::move(exchange), "ModelInfer");
  const auto forms = std::make_shared<OutputForms>();
  call->Run(
      [call = call.get(), forms, model = std::move(model), version = std::move(version)](
          const ReceivedBytes& body, InferenceRequest& request,
          CheckModel check_model) -> absl::Status {
        request.model_name = model;
        request.model_version = version;
        int64_t size = 0;
        for (const auto piece : body.pieces) size += static_cast<int64_t>(piece.size());
        const std::string_view header = call->request().Field(kHeaderLength);
        int64_t json_bytes = size;
        if (!header.empty() &&
            (!absl::SimpleAtoi(absl::string_view(header.data(), header.size()), &json_bytes) ||
             json_bytes < 0 || json_bytes > size)) {
          return InvalidArgument("request.header_length",
                                 absl::StrCat(kHeaderLength, " is no length of the body's head"));
        }
        if (json_bytes > 0 || header.empty()) {
          return ReadInferRequest(body, json_bytes, check_model, call->context().api.memory(),
                                  &request, forms.get());
        }
        // Triton's raw binary request: the body is the one input.
        forms->binary = true;
        request.options = WantedTensors();
        FOVEA_RETURN_IF_ERROR(check_model(request));
        if (size == 0) return InvalidArgument("request.no_image", "the request has no image");
        ImageFiles images;
        images.files.emplace_back(
            std::vector<ScatteredBytes::Piece>(body.pieces.begin(), body.pieces.end()), body.owner);
        request.input = std::move(images);
        return absl::OkStatus();
      },
      [call = call.get(), forms](InferenceResponse& response) {
        return TensorAnswer(*call, *forms, response);
      });
}

void StartVision(HttpContext& context, std::shared_ptr<HttpExchange> exchange, VisionTask task) {
  switch (task) {
    case VisionTask::kClassification:
      return RunVision<v1::ClassifyRequest, v1::ClassifyResponse>(context, std::move(exchange),
                                                                  "Classify");
    case VisionTask::kDetection:
      return RunVision<v1::DetectRequest, v1::DetectResponse>(context, std::move(exchange),
                                                              "Detect");
    case VisionTask::kSegmentation:
      return RunVision<v1::SegmentRequest, v1::SegmentResponse>(context, std::move(exchange),
                                                                "Segment");
  }
}

}  // namespace fovea
