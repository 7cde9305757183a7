// Protobuf's messages as JSON, in the form that clients of the Open Inference Protocol read.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace fovea {

// Fields under their names in the .proto file, also those that are unset, but for messages and
// members of a oneof. Unlike protobuf's own JSON, which its clients do not expect: 64-bit numbers
// are numbers, and floats have as many digits as tell them apart. Bytes are base64; what is no
// finite number is null.
std::string ToJson(const google::protobuf::Message& message);

// `text` in quotes; what is no UTF-8 in it is replaced.
void AppendText(std::string_view text, std::string* json);

// Sets the field `name` of `message`, or adds to it where it is repeated, from a text such as a
// query's. INVALID_ARGUMENT request.option: there is no such field that a text could set, or it
// does not fit.
absl::Status SetField(std::string_view name, std::string_view value,
                      google::protobuf::Message* message);

}  // namespace fovea
