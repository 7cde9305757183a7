#include "server/transport/http/message_json.h"

#include <google/protobuf/descriptor.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void AppendMessage(const Message& message, std::string* json);

template <typename Number>
void AppendNumber(Number value, std::string* json) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) {
      json->append("null");
      return;
    }
  }
  char digits[32];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), value);
  json->append(digits, end);
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
      return AppendNumber(get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble), json);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return AppendNumber(get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat), json);
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

bool Parse(absl::string_view text, bool* value) { return absl::SimpleAtob(text, value); }
bool Parse(absl::string_view text, float* value) { return absl::SimpleAtof(text, value); }
template <typename Integer>
bool Parse(absl::string_view text, Integer* value) {
  return absl::SimpleAtoi(text, value);
}

// Whether the text fits.
bool SetValue(const FieldDescriptor& field, std::string_view text, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const auto set = [&]<typename T>(void (Reflection::*setter)(Message*, const FieldDescriptor*, T)
                                       const) {
    T value{};
    if (!Parse({text.data(), text.size()}, &value)) return false;
    (reflection.*setter)(message, &field, value);
    return true;
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return set(&Reflection::SetInt32);
    case FieldDescriptor::CPPTYPE_UINT32:
      return set(&Reflection::SetUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return set(&Reflection::SetUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return set(&Reflection::SetFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(&Reflection::SetBool);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const std::string name(text);
      const auto* value = field.enum_type()->FindValueByName(name);
      if (value != nullptr) reflection.SetEnum(message, &field, value);
      return value != nullptr;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.type() == FieldDescriptor::TYPE_BYTES) return false;
      if (field.is_repeated()) {
        reflection.AddString(message, &field, std::string(text));
      } else {
        reflection.SetString(message, &field, std::string(text));
      }
      return true;
    default:
      return false;
  }
}

}  // namespace

void AppendText(std::string_view text, std::string* json) {
  json->append(nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string ToJson(const Message& message) {
  std::string json;
  AppendMessage(message, &json);
  return json;
}

absl::Status SetField(std::string_view name, std::string_view value, Message* message) {
  const FieldDescriptor* const field = message->GetDescriptor()->FindFieldByName(std::string(name));
  const bool settable =
      field != nullptr && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
      field->type() != FieldDescriptor::TYPE_BYTES &&
      (!field->is_repeated() || field->cpp_type() == FieldDescriptor::CPPTYPE_STRING);
  if (!settable) {
    return InvalidArgument("request.option", absl::StrCat("there is no option ", InQuotes(name)));
  }
  if (!SetValue(*field, value, message)) {
    return InvalidArgument("request.option",
                           absl::StrCat("option ", InQuotes(name), " cannot be ", InQuotes(value)));
  }
  return absl::OkStatus();
}

}  // namespace fovea
