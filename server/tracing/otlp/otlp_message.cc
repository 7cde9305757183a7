#include "server/tracing/otlp/otlp_message.h"

#include <variant>

#include "server/core/log.h"

namespace fovea {
namespace {

namespace common = opentelemetry::proto::common::v1;
namespace trace = opentelemetry::proto::trace::v1;
namespace collector = opentelemetry::proto::collector::trace::v1;

std::string BigEndian(uint64_t number) {
  std::string bytes(8, '\0');
  for (int i = 7; i >= 0; --i, number >>= 8) bytes[i] = static_cast<char>(number & 0xff);
  return bytes;
}

void SetValue(const AttributeValue& value, common::AnyValue* to) {
  if (const auto* text = std::get_if<std::string>(&value))
    to->set_string_value(EscapeForLog(*text));
  if (const auto* number = std::get_if<int64_t>(&value)) to->set_int_value(*number);
  if (const auto* fraction = std::get_if<double>(&value)) to->set_double_value(*fraction);
  if (const auto* truth = std::get_if<bool>(&value)) to->set_bool_value(*truth);
}

void SetSpan(const Span& span, trace::Span* to) {
  to->set_trace_id(BigEndian(span.trace.high) + BigEndian(span.trace.low));
  to->set_span_id(BigEndian(span.id));
  to->set_trace_state(span.state);
  if (span.parent != 0) to->set_parent_span_id(BigEndian(span.parent));
  to->set_flags(0x01 | trace::SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK |
                (span.remote_parent ? trace::SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK : 0));
  to->set_name(EscapeForLog(span.name));
  to->set_kind(span.kind == Span::Kind::kServer ? trace::Span::SPAN_KIND_SERVER
                                                : trace::Span::SPAN_KIND_INTERNAL);
  to->set_start_time_unix_nano(static_cast<uint64_t>(span.start));
  to->set_end_time_unix_nano(static_cast<uint64_t>(span.end));
  for (const auto& [name, value] : span.attributes) {
    common::KeyValue& attribute = *to->add_attributes();
    attribute.set_key(std::string(name));
    SetValue(value, attribute.mutable_value());
  }
  if (span.failed) {
    to->mutable_status()->set_code(trace::Status::STATUS_CODE_ERROR);
    to->mutable_status()->set_message(EscapeForLog(span.why));
  }
}

}  // namespace

collector::ExportTraceServiceRequest ToOtlp(const ResourceAttributes& resource,
                                            std::string_view version, std::span<const Span> spans) {
  collector::ExportTraceServiceRequest request;
  trace::ResourceSpans& from = *request.add_resource_spans();
  for (const auto& [name, value] : resource) {
    common::KeyValue& attribute = *from.mutable_resource()->add_attributes();
    attribute.set_key(EscapeForLog(name));
    SetValue(AttributeValue(value), attribute.mutable_value());
  }
  trace::ScopeSpans& scope = *from.add_scope_spans();
  scope.mutable_scope()->set_name("fovea");
  scope.mutable_scope()->set_version(std::string(version));
  scope.mutable_spans()->Reserve(static_cast<int>(spans.size()));
  for (const Span& span : spans) SetSpan(span, scope.add_spans());
  return request;
}

}  // namespace fovea
