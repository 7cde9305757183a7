// Options of a query or a form, as fields of protobuf's messages.
#pragma once

#include <google/protobuf/message.h>

#include <string_view>

#include "absl/status/status.h"

namespace fovea {

// Sets the field `name` of `message`, or adds to it where it is repeated, from a text such as a
// query's. INVALID_ARGUMENT request.option: there is no such field that a text could set, or it
// does not fit.
absl::Status SetField(std::string_view name, std::string_view value,
                      google::protobuf::Message* message);

// INVALID_ARGUMENT request.option: there is none of that name.
absl::Status NoSuchOption(std::string_view name);

}  // namespace fovea
