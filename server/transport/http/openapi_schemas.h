// Parts of the OpenAPI document: JSON Schemas (2020-12, as OpenAPI 3.1 has them) of what requests
// and answers hold. What comes of protobuf's messages is read from their descriptors, as ToJson and
// SetField do it.
#pragma once

#include <google/protobuf/descriptor.h>

#include <nlohmann/json.hpp>
#include <string>

namespace fovea {

using OpenApiJson = nlohmann::ordered_json;

// The schemas that a document's parts refer to, by name. Not thread-safe.
class OpenApiSchemas {
 public:
  // A reference to the schema of what ToJson writes of such messages.
  OpenApiJson Ref(const google::protobuf::Descriptor& message);
  // A reference to a schema that is written by hand, known from now on.
  OpenApiJson Ref(const std::string& name, OpenApiJson schema);

  // All that were referred to: OpenAPI's components.schemas.
  const OpenApiJson& all() const { return all_; }

 private:
  OpenApiJson OfField(const google::protobuf::FieldDescriptor& field);

  OpenApiJson all_ = OpenApiJson::object();
};

using DescribePart = OpenApiJson (*)(OpenApiSchemas& schemas);

namespace openapi {

// {"application/json": ...} and its like: contents by media type.
OpenApiJson JsonContent(OpenApiJson schema);
template <typename Message>
OpenApiJson MessageContent(OpenApiSchemas& schemas) {
  return JsonContent(schemas.Ref(*Message::descriptor()));
}
template <typename Message>
OpenApiJson MessagesContent(OpenApiSchemas& schemas) {
  return JsonContent({{"type", "array"}, {"items", schemas.Ref(*Message::descriptor())}});
}
// Results of a vision task in JSON, or a picture with them drawn over it.
template <typename Message>
OpenApiJson VisionContent(OpenApiSchemas& schemas);
OpenApiJson LiveContent(OpenApiSchemas& schemas);
OpenApiJson ReadyContent(OpenApiSchemas& schemas);
OpenApiJson ModelReadyContent(OpenApiSchemas& schemas);
OpenApiJson ModelNamesContent(OpenApiSchemas& schemas);
OpenApiJson CompareContent(OpenApiSchemas& schemas);
OpenApiJson SweepContent(OpenApiSchemas& schemas);
OpenApiJson ServeContent(OpenApiSchemas& schemas);
OpenApiJson TensorsContent(OpenApiSchemas& schemas);  // of an inference's answer
OpenApiJson AnyObjectContent(OpenApiSchemas& schemas);
OpenApiJson EmptyContent(OpenApiSchemas& schemas);       // {}
OpenApiJson NothingContent(OpenApiSchemas& schemas);     // []: of what there is never any
OpenApiJson PageContent(OpenApiSchemas& schemas);        // HTML
OpenApiJson PlaygroundContent(OpenApiSchemas& schemas);  // what a page is made of
OpenApiJson MetricsContent(OpenApiSchemas& schemas);
OpenApiJson ErrorContent(OpenApiSchemas& schemas);

// Bodies of requests.
OpenApiJson TensorsBody(OpenApiSchemas& schemas);
template <typename Message>
OpenApiJson ImagesBody(OpenApiSchemas& schemas);  // and options
OpenApiJson SweepBody(OpenApiSchemas& schemas);   // likewise; without an image, too
OpenApiJson IndexBody(OpenApiSchemas& schemas);
OpenApiJson LoadBody(OpenApiSchemas& schemas);
OpenApiJson RegionBody(OpenApiSchemas& schemas);
OpenApiJson AnyObjectBody(OpenApiSchemas& schemas);
// A message in JSON, whose fields may be left out.
OpenApiJson MessageBody(const google::protobuf::Descriptor& message, OpenApiSchemas& schemas);
template <typename Message>
OpenApiJson MessageBody(OpenApiSchemas& schemas) {
  return MessageBody(*Message::descriptor(), schemas);
}

// Parameters of requests, in queries and headers.
OpenApiJson TensorsParameters(OpenApiSchemas& schemas);
template <typename Message>
OpenApiJson VisionParameters(OpenApiSchemas& schemas);
OpenApiJson CompareParameters(OpenApiSchemas& schemas);
OpenApiJson SweepParameters(OpenApiSchemas& schemas);
OpenApiJson ServeParameters(OpenApiSchemas& schemas);
OpenApiJson ExplainParameters(OpenApiSchemas& schemas);

}  // namespace openapi
}  // namespace fovea
