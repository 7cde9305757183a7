// The description of a model that was quantised, from that of the model itself.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fovea {

// `text`, the model.textproto of a model that can be read, as that of one called `name` with
// precision INT8 and the weights of its own folder's version 1: what said which version serves, or
// whose weights, is left out, and so is a canary: its files stay with the model, and other rounding
// fails one of numbers. GPUs do not run it, so none are asked for. `summary`: a line for people,
// above the rest. Comments are not kept.
absl::StatusOr<std::string> QuantizedSpec(std::string_view text, std::string_view name,
                                          std::string_view summary);

}  // namespace fovea
