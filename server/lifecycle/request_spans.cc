#include "server/lifecycle/request_spans.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/tracing/random_id.h"
#include "server/transport/http/http_status.h"

namespace fovea {
namespace {

// Callers may send more than can be a name.
std::string Cut(std::string_view text) {
  return std::string(text.substr(0, limits::kMaxModelNameBytes));
}

// Of the method of an RPC that brings requests.
std::string_view ServiceOf(std::string_view method) {
  const bool is_oip = method.substr(0, 5) == "Model";
  return is_oip ? "inference.GRPCInferenceService" : "fovea.v1.VisionService";
}

// Whether it is the server's failure. What a caller did wrong is an answer like any other.
bool IsServersFault(Protocol protocol, absl::StatusCode code, int http_status) {
  if (protocol == Protocol::kHttp) return http_status >= 500;
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

// A pattern's parts in braces are the model and its version, in this order.
std::string PathOf(const AnsweredRequest& request) {
  std::string path = "/";
  int names = 0;
  for (size_t at = 0; at < request.route.size(); ++at) {
    if (request.route[at] != '{') {
      path += request.route[at];
      continue;
    }
    path += Cut(names++ == 0 ? request.requested_model : request.requested_version);
    at = std::min(request.route.find('}', at), request.route.size());
  }
  return path;
}

void AddRpc(std::string_view method, absl::StatusCode code, Span* span) {
  const std::string_view service = ServiceOf(method);
  span->name = absl::StrCat(std::string(service), "/", std::string(method));
  span->attributes.emplace_back("rpc.system", "grpc");
  span->attributes.emplace_back("rpc.service", std::string(service));
  span->attributes.emplace_back("rpc.method", std::string(method));
  span->attributes.emplace_back("rpc.grpc.status_code", static_cast<int64_t>(code));
}

void AddHttp(const AnsweredRequest& request, int status, Span* span) {
  const std::string route = absl::StrCat("/", std::string(request.route));
  span->name = absl::StrCat("POST ", route);  // every inference request is one
  span->attributes.emplace_back("http.request.method", "POST");
  span->attributes.emplace_back("http.route", route);
  span->attributes.emplace_back("url.path", PathOf(request));
  span->attributes.emplace_back("url.scheme", request.tls ? "https" : "http");
  span->attributes.emplace_back("network.protocol.version", "1.1");
  span->attributes.emplace_back("http.response.status_code", int64_t{status});
  span->attributes.emplace_back("http.request.body.size", request.received_bytes);
  if (request.code == absl::StatusCode::kOk) {
    span->attributes.emplace_back("http.response.body.size", request.sent_bytes);
  }
}

void SetOutcome(bool failed, absl::StatusCode code, std::string_view reason, Span* span) {
  span->failed = failed;
  if (code == absl::StatusCode::kOk) return;
  const std::string type = reason.empty() ? absl::StatusCodeToString(code) : std::string(reason);
  if (failed) span->why = type;
  span->attributes.emplace_back("error.type", type);
}

Span Begin(const RequestTrace& trace, Nanos start, Nanos end) {
  Span span;
  span.trace = trace.context.trace;
  span.id = trace.context.span;
  span.parent = trace.parent;
  span.remote_parent = trace.remote_parent;
  span.state = trace.context.state;
  // Requests of a stream are a part of one call.
  const bool has_local_parent = trace.parent != 0 && !trace.remote_parent;
  span.kind = has_local_parent ? Span::Kind::kInternal : Span::Kind::kServer;
  span.start = trace.wall + start;
  span.end = trace.wall + end;
  return span;
}

Span SpanOfRequest(const AnsweredRequest& request) {
  Span span = Begin(request.trace, request.stages.start(), request.ended);
  const int http_status =
      static_cast<int>(HttpStatusOf(MakeError(request.code, request.reason, "")));
  if (request.protocol == Protocol::kGrpc) {
    AddRpc(request.method, request.code, &span);
    if (span.kind == Span::Kind::kInternal) span.name += " request";
  } else {
    AddHttp(request, http_status, &span);
  }
  auto& attributes = span.attributes;
  if (!request.id.empty()) attributes.emplace_back("fovea.request.id", Cut(request.id));
  if (!request.principal.empty()) {
    attributes.emplace_back("fovea.principal", std::string(request.principal));
  }
  if (request.model != nullptr) {
    const ModelView& model = *request.model->view();
    attributes.emplace_back("fovea.model.name", model.name);
    attributes.emplace_back("fovea.model.version", model.version);
    attributes.emplace_back("fovea.backbone", model.backbone);
    attributes.emplace_back("fovea.attention", model.attention);
  } else {
    attributes.emplace_back("fovea.model.name", Cut(request.requested_model));
  }
  if (request.batch_size > 0) {
    attributes.emplace_back("fovea.batch.size", int64_t{request.batch_size});
  }
  if (request.device_times) {
    attributes.emplace_back("fovea.h2d_ns", request.device_times->h2d);
    attributes.emplace_back("fovea.kernels_ns", request.device_times->kernels);
    attributes.emplace_back("fovea.d2h_ns", request.device_times->d2h);
  }
  SetOutcome(IsServersFault(request.protocol, request.code, http_status), request.code,
             request.reason, &span);
  return span;
}

}  // namespace

std::vector<Span> SpansOf(const AnsweredRequest& request) {
  std::vector<Span> spans;
  spans.reserve(1 + request.stages.intervals().size());
  spans.push_back(SpanOfRequest(request));
  for (const StageInterval& interval : request.stages.intervals()) {
    Span& stage = spans.emplace_back();
    stage.trace = request.trace.context.trace;
    stage.id = RandomSpanId();
    stage.parent = request.trace.context.span;
    stage.state = request.trace.context.state;
    stage.name = kStageNames[static_cast<int>(interval.stage)];
    stage.start = request.trace.wall + interval.start;
    stage.end = request.trace.wall + interval.end;
    stage.attributes.emplace_back("fovea.receipt_ns", interval.attributed);
  }
  return spans;
}

Span SpanOf(const EndedStream& stream) {
  Span span = Begin(stream.trace, stream.started, stream.ended);
  AddRpc(stream.method, stream.code, &span);
  span.attributes.emplace_back("fovea.stream.requests", static_cast<int64_t>(stream.requests));
  SetOutcome(IsServersFault(stream.protocol, stream.code, 0), stream.code, stream.reason, &span);
  return span;
}

}  // namespace fovea
