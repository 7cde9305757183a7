#include "server/transport/http/set_field.h"

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool Parse(absl::string_view text, bool* value) { return absl::SimpleAtob(text, value); }
bool Parse(absl::string_view text, float* value) { return absl::SimpleAtof(text, value); }
template <typename Integer>
bool Parse(absl::string_view text, Integer* value) {
  return absl::SimpleAtoi(text, value);
}

// Whether SetValue adds to such a field, where it is repeated.
bool IsAdded(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM;
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
      return set(field.is_repeated() ? &Reflection::AddInt32 : &Reflection::SetInt32);
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
      if (value == nullptr) return false;
      if (field.is_repeated()) {
        reflection.AddEnum(message, &field, value);
      } else {
        reflection.SetEnum(message, &field, value);
      }
      return true;
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

absl::Status NoSuchOption(std::string_view name) {
  return InvalidArgument("request.option",
                         absl::StrCat("there is no option ", InQuotes(name),
                                      ": /openapi.json lists them; a form's pictures are its "
                                      "parts called 'image'"));
}

absl::Status SetField(std::string_view name, std::string_view value, Message* message) {
  const FieldDescriptor* const field = message->GetDescriptor()->FindFieldByName(std::string(name));
  const bool settable = field != nullptr && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
                        field->type() != FieldDescriptor::TYPE_BYTES &&
                        (!field->is_repeated() || IsAdded(*field));
  if (!settable) return NoSuchOption(name);
  if (!SetValue(*field, value, message)) {
    return InvalidArgument("request.option",
                           absl::StrCat("option ", InQuotes(name), " cannot be ", InQuotes(value)));
  }
  return absl::OkStatus();
}

}  // namespace fovea
