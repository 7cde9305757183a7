#include "server/transport/http/openapi_schemas.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "client/web/web_files.h"
#include "server/core/tensor.h"
#include "server/transport/messages/comparison_messages.h"
#include "server/transport/messages/receipt_parameters.h"
#include "server/transport/messages/vision_messages.h"

namespace fovea {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

OpenApiJson Integer(int64_t minimum) { return {{"type", "integer"}, {"minimum", minimum}}; }
OpenApiJson Text() { return {{"type", "string"}}; }
OpenApiJson Bytes() { return {{"type", "string"}, {"format", "binary"}}; }
OpenApiJson Array(OpenApiJson items) { return {{"type", "array"}, {"items", std::move(items)}}; }
OpenApiJson Id() { return {{"type", "string"}, {"maxLength", limits::kMaxRequestIdBytes}}; }
OpenApiJson AnyArray() { return Array(OpenApiJson::object()); }

// Schema of an optional member of a body, which may also be null.
OpenApiJson OrNull(OpenApiJson schema) {
  schema["type"] = {schema["type"], "null"};
  return schema;
}

// "fovea.v1.Detection" and "inference.RepositoryIndexResponse.ModelIndex" without the package.
std::string NameOf(const Descriptor& message) {
  std::string name(message.full_name());
  name.erase(0, message.file()->package().size() + 1);
  std::erase(name, '.');
  return name;
}

OpenApiJson OfEnum(const google::protobuf::EnumDescriptor& type) {
  OpenApiJson names = OpenApiJson::array();
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return {{"type", "string"}, {"enum", std::move(names)}};
}

// Schema of an enum in a request, without *_UNSPECIFIED: callers leave the field out instead.
OpenApiJson WithoutUnspecified(OpenApiJson schema) {
  if (!schema.contains("enum")) return schema;
  OpenApiJson names = OpenApiJson::array();
  for (const OpenApiJson& name : schema["enum"]) {
    if (!name.get<std::string>().ends_with("_UNSPECIFIED")) names.push_back(name);
  }
  schema["enum"] = std::move(names);
  return schema;
}

// A value that is no message.
OpenApiJson OfScalar(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return {{"type", "integer"}, {"format", "int32"}};
    case FieldDescriptor::CPPTYPE_INT64:
      return {{"type", "integer"}, {"format", "int64"}};
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return Integer(0);
    case FieldDescriptor::CPPTYPE_BOOL:
      return {{"type", "boolean"}};
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return {{"type", "number"}};
    case FieldDescriptor::CPPTYPE_ENUM:
      return OfEnum(*field.enum_type());
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.type() == FieldDescriptor::TYPE_BYTES) {
        return {{"type", "string"}, {"contentEncoding", "base64"}};
      }
      return Text();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return nullptr;
}

// What an option of a vision request means, and what it may be.
struct Option {
  std::string_view name;  // in a query or a form
  std::string_view description;
  int64_t most = 0;  // of a number; 0: whatever its type holds
};
constexpr Option kOptions[] = {
    {"model", "whose answer is wanted"},
    {"version", "absent: the latest that is served"},
    {"id", "returned unchanged"},
    {"priority", "1 is served first; 0: the model's default"},
    {"top_k", "classes of each image; 0: five"},
    {"score_threshold", "objects of a lower score are left out", 1},
    {"max_detections", "objects of each image at most; 0: as many as the model gives"},
    {"classes", "only objects of these: labels, or class numbers"},
    {"mask_format", "which pixels show each object: of models that have masks"},
    {"map_format", "how the pixels' classes come"},
    {"confidence", "besides, how sure the model is of each pixel"},
    {"timeout_us", "microseconds in which the answer is of use; 0: no such limit"},
    {"attention", "run over the models' weights in place of their own"},
    {"variant", "a model, and behind a colon what is run in place of its attention"},
    {"rounds", "of a comparison those before the first look at the verdicts; 0: 20"},
    {"max_rounds", "at most, while a verdict is missing; 0: ten times the rounds"},
    {"max_time_us",
     "microseconds after which no round begins; of a comparison, once those asked for are done"},
    {"batch_size", "images in a batch: one, so many times; 0: one"},
    {"threads", "of the server's for models; 0: all"},
    {"over", "the axis, in small letters too"},
    {"values", "on the axis, joined by commas or repeated"},
    {"method", "what is wanted; repeated"},
    {"layer", "of MAPS: these alone, counted from 0; none: all"},
    {"head", "of MAPS: these, counted from 0; none: the mean over all"},
    {"every_head", "of MAPS: a picture for each"},
    {"x", "whose weights are shown: the patch there, pixels from the left edge; with y"},
    {"y", "pixels from the upper edge"},
    {"target_class", "whose share is followed; absent: the most probable one"},
    {"picture_form", "whether maps are drawn over the image"},
};

// Lines: progress, and last `name`.
OpenApiJson LinesContent(const std::string& name, const Descriptor& outcome,
                         OpenApiSchemas& schemas) {
  const OpenApiJson line = {
      {"type", "object"},
      {"description", "a line: progress, and last the " + name + " or an error"},
      {"oneOf",
       {{{"required", {"progress"}},
         {"properties", {{"progress", schemas.Ref(*v1::ComparisonProgress::descriptor())}}}},
        {{"required", {name}}, {"properties", {{name, schemas.Ref(outcome)}}}},
        {{"required", {"error", "code", "reason"}}}}}};
  return {{"application/x-ndjson", {{"schema", line}}}};
}

// `take(name, description, schema)` for each option of a request: its fields but images and
// messages, as SetField takes them, and what else there is: the time for a vision request, the
// models and attentions of a comparison.
template <typename Take>
void ForEachOption(const Descriptor& message, Take take) {
  const auto give = [&](std::string_view name, OpenApiJson schema) {
    const auto* const option = std::ranges::find(kOptions, name, &Option::name);
    if (option == std::end(kOptions)) return take(name, std::string_view(), std::move(schema));
    if (schema["type"] == "integer") schema["minimum"] = 0;
    if (option->most > 0) schema.update({{"minimum", 0}, {"maximum", option->most}});
    take(name, option->description, std::move(schema));
  };
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (field.type() == FieldDescriptor::TYPE_BYTES ||
        field.type() == FieldDescriptor::TYPE_MESSAGE) {
      continue;
    }
    std::string name = field.name();
    if (name == "model_name") name = "model";
    if (name == "model_version") name = "version";
    if (name == "methods" || name == "layers" || name == "heads") name.pop_back();
    OpenApiJson schema = name == "id" ? Id() : WithoutUnspecified(OfScalar(field));
    give(name, field.is_repeated() ? Array(std::move(schema)) : std::move(schema));
  }
  if (&message == v1::CompareRequest::descriptor() || &message == v1::SweepRequest::descriptor() ||
      &message == v1::ServeRequest::descriptor()) {
    give("model", Array(Text()));
    give("attention", Array(Text()));
    give("variant", Array(Text()));
  } else if (&message != v1::ExplainRequest::descriptor()) {
    give("timeout_us", Integer(0));
  }
}

OpenApiJson DataTypes() {
  OpenApiJson names = OpenApiJson::array();
  for (const DataType type :
       {DataType::kBool, DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64,
        DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64, DataType::kFp16,
        DataType::kFp32, DataType::kFp64, DataType::kBf16, DataType::kBytes}) {
    names.push_back(std::string(DataTypeName(type)));
  }
  return {{"type", "string"}, {"enum", std::move(names)}};
}

OpenApiJson Shape(int64_t least) {
  OpenApiJson shape = Array(Integer(least));
  shape["maxItems"] = limits::kMaxTensorRank;
  return shape;
}

// Where a tensor lies in shared memory.
OpenApiJson SpanParameters() {
  return {{"shared_memory_region", Text()},
          {"shared_memory_offset", Integer(0)},
          {"shared_memory_byte_size", Integer(0)}};
}

OpenApiJson With(OpenApiJson properties, const char* name, OpenApiJson schema) {
  properties[name] = std::move(schema);
  return properties;
}

// Others are ignored, as Triton ignores them.
OpenApiJson Parameters(OpenApiJson properties) {
  return {{"type", "object"}, {"properties", std::move(properties)}};
}
OpenApiJson RequestParameters(OpenApiJson properties) {
  for (OpenApiJson& property : properties) property = OrNull(std::move(property));
  return OrNull(Parameters(std::move(properties)));
}

// What the receipt says, by the names and types that answers have.
OpenApiJson ReceiptParameters() {
  InferenceResponse everything;
  everything.untrained = everything.non_finite_input = true;
  everything.receipt.principal = "somebody";
  everything.receipt.experiment = everything.receipt.experiment_arm = "one";
  OpenApiJson properties = OpenApiJson::object();
  ForEachReceiptParameter(everything, [&](std::string_view name, auto value) {
    using Value = decltype(value);
    const char* const type = std::is_same_v<Value, bool>       ? "boolean"
                             : std::is_same_v<Value, int64_t>  ? "integer"
                             : std::is_floating_point_v<Value> ? "number"
                                                               : "string";
    properties[std::string(name)] = {{"type", type}};
  });
  return Parameters(std::move(properties));
}

OpenApiJson InferRequest(OpenApiSchemas& schemas) {
  OpenApiJson data = OrNull(AnyArray());
  data["description"] =
      "row-major; may be nested as the shape is. Absent where binary_data_size or "
      "shared_memory_region stands";
  const OpenApiJson input = schemas.Ref(
      "InferInput", {{"type", "object"},
                     {"required", {"name", "datatype", "shape"}},
                     {"properties",
                      {{"name", {{"type", "string"}, {"minLength", 1}}},
                       {"datatype", DataTypes()},
                       {"shape", Shape(1)},
                       {"data", std::move(data)},
                       {"parameters", RequestParameters(With(SpanParameters(), "binary_data_size",
                                                             Integer(0)))}}}});
  const OpenApiJson output = schemas.Ref(
      "InferRequestedOutput",
      {{"type", "object"},
       {"required", {"name"}},
       {"properties",
        {{"name", Text()},
         {"parameters",
          RequestParameters(With(With(SpanParameters(), "binary_data", {{"type", "boolean"}}),
                                 "classification", Integer(0)))}}}});
  OpenApiJson inputs = Array(input), outputs = Array(output);
  inputs["minItems"] = 1;
  inputs["maxItems"] = outputs["maxItems"] = limits::kMaxInputsPerRequest;
  return schemas.Ref(
      "InferRequest",
      {{"type", "object"},
       {"required", {"inputs"}},
       {"properties",
        {{"id", OrNull(Id())},
         {"parameters", RequestParameters({{"priority", Integer(0)},
                                           {"timeout", Integer(0)},
                                           {"binary_data_output", {{"type", "boolean"}}}})},
         {"inputs", std::move(inputs)},
         {"outputs", OrNull(std::move(outputs))}}}});
}

OpenApiJson InferResponse(OpenApiSchemas& schemas) {
  const OpenApiJson output = schemas.Ref(
      "InferOutput", {{"type", "object"},
                      {"required", {"name", "datatype", "shape"}},
                      {"properties",
                       {{"name", Text()},
                        {"datatype", DataTypes()},
                        {"shape", Shape(0)},
                        {"data", AnyArray()},
                        {"parameters", Parameters({{"binary_data_size", Integer(0)}})}}}});
  return schemas.Ref("InferResponse",
                     {{"type", "object"},
                      {"required", {"model_name", "model_version", "parameters", "outputs"}},
                      {"properties",
                       {{"model_name", Text()},
                        {"model_version", Text()},
                        {"id", Text()},
                        {"parameters", schemas.Ref("ReceiptParameters", ReceiptParameters())},
                        {"outputs", Array(output)}}}});
}

// What may be said of a message in a body: what is left out is as if it were zero.
OpenApiJson Optional(const Descriptor& message) {
  OpenApiJson properties = OpenApiJson::object();
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    OpenApiJson value = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
                            ? Optional(*field.message_type())
                            : WithoutUnspecified(OfScalar(field));
    properties[field.name()] = field.is_repeated() ? Array(std::move(value)) : std::move(value);
  }
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

OpenApiJson JsonBody(bool required, OpenApiJson schema) {
  return {{"required", required}, {"content", openapi::JsonContent(std::move(schema))}};
}

OpenApiJson Parameter(std::string_view name, const char* in, std::string_view description,
                      OpenApiJson schema) {
  return {{"name", std::string(name)},
          {"in", in},
          {"description", std::string(description)},
          {"schema", std::move(schema)}};
}

OpenApiJson ContentEncoding() {
  return Parameter("Content-Encoding", "header", "of the body",
                   {{"type", "string"}, {"enum", {"identity", "gzip", "deflate"}}});
}

void AddOptions(const Descriptor& message, OpenApiJson* parameters) {
  ForEachOption(message,
                [&](std::string_view name, std::string_view description, OpenApiJson schema) {
                  parameters->push_back(Parameter(name, "query", description, std::move(schema)));
                });
}

// Header fields of every inference request.
OpenApiJson FieldsOfInference() {
  return {Parameter("X-Request-Id", "header", "the request's id, which the answer names too", Id()),
          ContentEncoding(),
          Parameter("fovea-experiment-key", "header",
                    "requests of one key go to one arm of an experiment",
                    {{"type", "string"}, {"maxLength", limits::kMaxExperimentKeyBytes}}),
          Parameter("traceparent", "header", "the caller's span (W3C Trace Context)",
                    {{"type", "string"}}),
          Parameter("tracestate", "header", "what other tracers keep of it", {{"type", "string"}})};
}

}  // namespace

OpenApiJson OpenApiSchemas::OfField(const FieldDescriptor& field) {
  if (field.is_map()) {
    return {{"type", "object"},
            {"additionalProperties", OfField(*field.message_type()->map_value())}};
  }
  OpenApiJson value = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
                          ? Ref(*field.message_type())
                          : OfScalar(field);
  // ToJson has no other word for what is no finite number.
  if (value.contains("type") && value["type"] == "number") value["type"] = {"number", "null"};
  return field.is_repeated() ? Array(std::move(value)) : value;
}

OpenApiJson OpenApiSchemas::Ref(const std::string& name, OpenApiJson schema) {
  all_[name] = std::move(schema);
  return {{"$ref", absl::StrCat("#/components/schemas/", name)}};
}

OpenApiJson OpenApiSchemas::Ref(const Descriptor& message) {
  const std::string name = NameOf(message);
  if (all_.contains(name)) return {{"$ref", absl::StrCat("#/components/schemas/", name)}};
  all_[name] = nullptr;  // its fields may refer to it
  OpenApiJson properties = OpenApiJson::object(), required = OpenApiJson::array();
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    properties[field.name()] = OfField(field);
    if (!field.has_presence()) required.push_back(field.name());
  }
  OpenApiJson schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return Ref(name, std::move(schema));
}

namespace openapi {

OpenApiJson JsonContent(OpenApiJson schema) {
  return {{"application/json", {{"schema", std::move(schema)}}}};
}

OpenApiJson LiveContent(OpenApiSchemas&) {
  return JsonContent({{"type", "object"},
                      {"required", {"live"}},
                      {"properties", {{"live", {{"type", "boolean"}}}}}});
}

OpenApiJson ReadyContent(OpenApiSchemas&) {
  return JsonContent(
      {{"type", "object"},
       {"required", {"ready"}},
       {"properties",
        {{"ready", {{"type", "boolean"}}},
         {"reason", Text()},
         {"models",
          Array({{"type", "object"},
                 {"required", {"name", "state", "reason"}},
                 {"properties", {{"name", Text()}, {"state", Text()}, {"reason", Text()}}}})}}}});
}

OpenApiJson ModelReadyContent(OpenApiSchemas&) {
  return JsonContent({{"type", "object"},
                      {"required", {"name", "ready"}},
                      {"properties", {{"name", Text()}, {"ready", {{"type", "boolean"}}}}}});
}

OpenApiJson ModelNamesContent(OpenApiSchemas&) {
  return JsonContent(
      {{"type", "object"}, {"required", {"models"}}, {"properties", {{"models", Array(Text())}}}});
}

OpenApiJson AnyObjectContent(OpenApiSchemas&) { return JsonContent({{"type", "object"}}); }

OpenApiJson EmptyContent(OpenApiSchemas&) {
  return JsonContent({{"type", "object"}, {"maxProperties", 0}});
}

OpenApiJson NothingContent(OpenApiSchemas&) {
  OpenApiJson nothing = AnyArray();
  nothing["maxItems"] = 0;
  return JsonContent(std::move(nothing));
}

OpenApiJson PageContent(OpenApiSchemas&) {
  return {{"text/html", {{"schema", {{"type", "string"}}}}}};
}

OpenApiJson PlaygroundContent(OpenApiSchemas&) {
  OpenApiJson content;
  for (const WebFile& file : WebFiles()) {
    const std::string_view type = file.content_type.substr(0, file.content_type.find(';'));
    content[std::string(type)] = OpenApiJson::object();
  }
  return content;
}

OpenApiJson MetricsContent(OpenApiSchemas&) {
  return {{"text/plain", {{"schema", {{"type", "string"}}}}}};
}

OpenApiJson ErrorContent(OpenApiSchemas& schemas) {
  OpenApiJson codes = OpenApiJson::array();
  for (int code = 1; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    codes.push_back(absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
  }
  return JsonContent(schemas.Ref(
      "Error",
      {{"type", "object"},
       {"required", {"error", "code", "reason"}},
       {"properties",
        {{"error", {{"type", "string"}, {"description", "for people"}}},
         {"code", {{"type", "string"}, {"enum", std::move(codes)}}},
         {"reason",
          {{"type", "string"},
           {"description", "for programs: a short, stable token, for example image.truncated"}}},
         {"id", {{"type", "string"}, {"description", "the request's, if it had one"}}}}}}));
}

OpenApiJson TensorsContent(OpenApiSchemas& schemas) {
  OpenApiJson content = JsonContent(InferResponse(schemas));
  content["application/octet-stream"] = {{"schema", Bytes()}};
  return content;
}

template <typename Message>
OpenApiJson VisionContent(OpenApiSchemas& schemas) {
  OpenApiJson content = MessageContent<Message>(schemas);
  content["image/png"] = {{"schema", Bytes()}};
  return content;
}
template OpenApiJson VisionContent<v1::ClassifyResponse>(OpenApiSchemas& schemas);
template OpenApiJson VisionContent<v1::DetectResponse>(OpenApiSchemas& schemas);
template OpenApiJson VisionContent<v1::SegmentResponse>(OpenApiSchemas& schemas);
template OpenApiJson VisionContent<v1::Explanation>(OpenApiSchemas& schemas);

OpenApiJson CompareContent(OpenApiSchemas& schemas) {
  return LinesContent("comparison", *v1::Comparison::descriptor(), schemas);
}

OpenApiJson SweepContent(OpenApiSchemas& schemas) {
  return LinesContent("sweep", *v1::Sweep::descriptor(), schemas);
}

OpenApiJson ServeContent(OpenApiSchemas& schemas) {
  const OpenApiJson line = {
      {"type", "object"},
      {"description",
       "a line: progress, then the names of what is served, and last an error where the server "
       "ends it"},
      {"oneOf",
       {{{"required", {"progress"}},
         {"properties", {{"progress", schemas.Ref(*v1::ComparisonProgress::descriptor())}}}},
        {{"required", {"served"}},
         {"properties", {{"served", schemas.Ref(*v1::ServedVariants::descriptor())}}}},
        {{"required", {"error", "code", "reason"}}}}}};
  return {{"application/x-ndjson", {{"schema", line}}}};
}

OpenApiJson TensorsBody(OpenApiSchemas& schemas) {
  OpenApiJson body = JsonBody(true, InferRequest(schemas));
  body["content"]["application/octet-stream"] = {{"schema", Bytes()}};
  body["description"] =
      "JSON; or JSON and binary tensors behind it, whose length Inference-Header-Content-Length "
      "tells; or, where that is 0, one image";
  return body;
}

namespace {

// `least`: images.
template <typename Message>
OpenApiJson FormBody(int least) {
  OpenApiJson properties = {{"image", Array(Bytes())}};
  properties["image"]["minItems"] = least;
  ForEachOption(*Message::descriptor(),
                [&](std::string_view name, std::string_view, OpenApiJson schema) {
                  properties[std::string(name)] = std::move(schema);
                });
  OpenApiJson content = {
      {"multipart/form-data",
       {{"schema", {{"type", "object"}, {"properties", std::move(properties)}}}}}};
  if (least > 0) content["multipart/form-data"]["schema"]["required"] = {"image"};
  for (const char* const type : {"image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp",
                                 "image/tiff", "image/avif", "application/octet-stream"}) {
    content[type] = {{"schema", Bytes()}};
  }
  return {{"required", least > 0},
          {"description",
           "one image as it is, or several in a form, whose further parts are "
           "options as the query has them"},
          {"content", std::move(content)}};
}

}  // namespace

template <typename Message>
OpenApiJson ImagesBody(OpenApiSchemas&) {
  return FormBody<Message>(1);
}
template OpenApiJson ImagesBody<v1::ClassifyRequest>(OpenApiSchemas& schemas);
template OpenApiJson ImagesBody<v1::DetectRequest>(OpenApiSchemas& schemas);
template OpenApiJson ImagesBody<v1::SegmentRequest>(OpenApiSchemas& schemas);
template OpenApiJson ImagesBody<v1::CompareRequest>(OpenApiSchemas& schemas);
template OpenApiJson ImagesBody<v1::ExplainRequest>(OpenApiSchemas& schemas);

OpenApiJson SweepBody(OpenApiSchemas&) { return FormBody<v1::SweepRequest>(0); }

OpenApiJson IndexBody(OpenApiSchemas&) {
  return JsonBody(
      false, {{"type", "object"},
              {"properties",
               {{"ready", OrNull({{"type", "boolean"}, {"description", "only what serves"}})}}}});
}

OpenApiJson LoadBody(OpenApiSchemas&) {
  const OpenApiJson config = OrNull(
      {{"type", "string"},
       {"description", "JSON of a ModelConfig: what is to be other than in the model's folder"}});
  const OpenApiJson file = OrNull(
      {{"type", "string"},
       {"contentEncoding", "base64"},
       {"description", "the weights of a version; with a config beside it, which may be {}"}});
  return JsonBody(
      false, {{"type", "object"},
              {"properties",
               {{"parameters",
                 OrNull({{"type", "object"},
                         {"maxProperties", limits::kMaxParametersPerRequest},
                         {"properties", {{"config", config}}},
                         {"patternProperties", {{"^file:[1-9][0-9]*/model[.]safetensors$", file}}},
                         {"additionalProperties", false}})}}}});
}

OpenApiJson RegionBody(OpenApiSchemas&) {
  return JsonBody(true,
                  {{"type", "object"},
                   {"required", {"key", "byte_size"}},
                   {"properties",
                    {{"key", Text()}, {"offset", OrNull(Integer(0))}, {"byte_size", Integer(0)}}}});
}

OpenApiJson AnyObjectBody(OpenApiSchemas&) { return JsonBody(false, {{"type", "object"}}); }

OpenApiJson MessageBody(const Descriptor& message, OpenApiSchemas&) {
  return JsonBody(true, Optional(message));
}

OpenApiJson TensorsParameters(OpenApiSchemas&) {
  OpenApiJson parameters = FieldsOfInference();
  parameters.push_back(Parameter("Inference-Header-Content-Length", "header",
                                 "bytes of the JSON in front of binary tensors", Integer(0)));
  return parameters;
}

template <typename Message>
OpenApiJson VisionParameters(OpenApiSchemas&) {
  OpenApiJson parameters = FieldsOfInference();
  AddOptions(*Message::descriptor(), &parameters);
  return parameters;
}
template OpenApiJson VisionParameters<v1::ClassifyRequest>(OpenApiSchemas& schemas);
template OpenApiJson VisionParameters<v1::DetectRequest>(OpenApiSchemas& schemas);
template OpenApiJson VisionParameters<v1::SegmentRequest>(OpenApiSchemas& schemas);

OpenApiJson CompareParameters(OpenApiSchemas&) {
  OpenApiJson parameters = {ContentEncoding()};
  AddOptions(*v1::CompareRequest::descriptor(), &parameters);
  return parameters;
}

OpenApiJson SweepParameters(OpenApiSchemas&) {
  OpenApiJson parameters = {ContentEncoding()};
  AddOptions(*v1::SweepRequest::descriptor(), &parameters);
  return parameters;
}

OpenApiJson ServeParameters(OpenApiSchemas&) {
  OpenApiJson parameters = OpenApiJson::array();
  AddOptions(*v1::ServeRequest::descriptor(), &parameters);
  return parameters;
}

OpenApiJson ExplainParameters(OpenApiSchemas&) {
  OpenApiJson parameters = {ContentEncoding()};
  AddOptions(*v1::ExplainRequest::descriptor(), &parameters);
  return parameters;
}

}  // namespace openapi
}  // namespace fovea
