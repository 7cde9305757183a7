#include "server/transport/http/message_json.h"

#include <google/protobuf/descriptor.h>

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/transport/http/json_text.h"

namespace fovea {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void AppendMessage(const Message& message, std::string* json);

template <typename Real>
void AppendReal(Real value, std::string* json) {
  if (!std::isfinite(value)) {
    json->append("null");
    return;
  }
  AppendNumber(value, json);
}

// The one value of `field`, or that with the index of a repeated one.
void AppendValue(const Message& message, const FieldDescriptor& field, int index,
                 std::string* json) {
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto one, auto several) {
    return field.is_repeated() ? (reflection.*several)(message, &field, index)
                               : (reflection.*one)(message, &field);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return AppendNumber(get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32), json);
    case FieldDescriptor::CPPTYPE_INT64:
      return AppendNumber(get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64), json);
    case FieldDescriptor::CPPTYPE_UINT32:
      return AppendNumber(get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32), json);
    case FieldDescriptor::CPPTYPE_UINT64:
      return AppendNumber(get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64), json);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return AppendReal(get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble), json);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return AppendReal(get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat), json);
    case FieldDescriptor::CPPTYPE_BOOL:
      json->append(get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false");
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      return AppendText(get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name(), json);
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = get(&Reflection::GetString, &Reflection::GetRepeatedString);
      if (field.type() != FieldDescriptor::TYPE_BYTES) return AppendText(text, json);
      absl::StrAppend(json, "\"", absl::Base64Escape(text), "\"");
      return;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AppendMessage(field.is_repeated()
                               ? reflection.GetRepeatedMessage(message, &field, index)
                               : reflection.GetMessage(message, &field),
                           json);
  }
}

// The names of an object's members are texts: a map's numbers go between quotes.
void AppendEntry(const Message& entry, const FieldDescriptor& map, std::string* json) {
  const FieldDescriptor& key = *map.message_type()->map_key();
  const bool is_text = key.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (!is_text) json->push_back('"');
  AppendValue(entry, key, 0, json);
  json->append(is_text ? ":" : "\":");
  AppendValue(entry, *map.message_type()->map_value(), 0, json);
}

void AppendMessage(const Message& message, std::string* json) {
  const Reflection& reflection = *message.GetReflection();
  json->push_back('{');
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.has_presence() && !reflection.HasField(message, &field)) continue;
    if (json->back() != '{') json->push_back(',');
    AppendText(field.name(), json);
    json->push_back(':');
    if (!field.is_repeated()) {
      AppendValue(message, field, 0, json);
      continue;
    }
    json->push_back(field.is_map() ? '{' : '[');
    for (int value = 0; value < reflection.FieldSize(message, &field); ++value) {
      if (value > 0) json->push_back(',');
      if (field.is_map()) {
        AppendEntry(reflection.GetRepeatedMessage(message, &field, value), field, json);
      } else {
        AppendValue(message, field, value, json);
      }
    }
    json->push_back(field.is_map() ? '}' : ']');
  }
  json->push_back('}');
}

}  // namespace

std::string ToJson(const Message& message) {
  std::string json;
  AppendMessage(message, &json);
  return json;
}

}  // namespace fovea
