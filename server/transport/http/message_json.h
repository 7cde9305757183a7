// Protobuf's messages as JSON, in the form that clients of the Open Inference Protocol read.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace fovea {

// Fields under their names in the .proto file, also those that are unset, but for messages and
// members of a oneof. Unlike protobuf's own JSON, which its clients do not expect: 64-bit numbers
// are numbers, and floats have as many digits as tell them apart. Bytes are base64; what is no
// finite number is null.
std::string ToJson(const google::protobuf::Message& message);

}  // namespace fovea
