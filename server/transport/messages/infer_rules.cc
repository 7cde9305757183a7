#include "server/transport/messages/infer_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/bytes_tensor.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

bool NamesUrl(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower({name.data(), name.size()});
  return lower == "url" || lower == "uri" || absl::EndsWith(lower, "_url") ||
         absl::EndsWith(lower, "_uri");
}

}  // namespace

absl::Status CheckRequestId(std::string_view id) {
  if (id.size() <= limits::kMaxRequestIdBytes) return absl::OkStatus();
  return InvalidArgument(
      "request.id", absl::StrCat("the id is longer than ", limits::kMaxRequestIdBytes, " bytes"));
}

absl::Status CheckParameterCount(size_t parameters) {
  if (parameters <= static_cast<size_t>(limits::kMaxParametersPerRequest)) return absl::OkStatus();
  return InvalidArgument(
      "request.parameter_count",
      absl::StrCat("more than ", limits::kMaxParametersPerRequest, " parameters"));
}

absl::Status CheckParameterName(std::string_view name) {
  if (name.starts_with("shared_memory_")) {
    return Unimplemented("request.shared_memory",
                         "tensors in shared memory are not supported by this server");
  }
  if (NamesUrl(name)) {
    return InvalidArgument("request.url", "URL inputs are not supported: send the image itself");
  }
  return absl::OkStatus();
}

absl::Status NoCount(std::string_view name) {
  return InvalidArgument("request.parameter", absl::StrCat("parameter ", std::string(name),
                                                           " is no whole number of at least 0"));
}

absl::Status InputError(std::string_view reason, std::string_view input, std::string_view what) {
  return InvalidArgument(reason, absl::StrCat("input ", InQuotes(input), " ", std::string(what)));
}

absl::StatusOr<DataType> ReadInputType(std::string_view input, std::string_view datatype) {
  if (input.empty()) return InvalidArgument("request.input_name", "an input has no name");
  if (const auto type = ParseDataType(datatype)) return *type;
  return InputError("request.datatype", input,
                    absl::StrCat("has the unknown datatype ", InQuotes(datatype)));
}

absl::StatusOr<int64_t> CheckInputShape(std::string_view input, std::span<const int64_t> shape,
                                        DataType type) {
  if (shape.size() > limits::kMaxTensorRank) {
    return InputError("request.shape", input,
                      absl::StrCat("has more than ", limits::kMaxTensorRank, " dimensions"));
  }
  if (std::ranges::any_of(shape, [](int64_t d) { return d <= 0; })) {
    return InputError("request.shape", input, "has a dimension below 1");
  }
  const auto elements = ElementCount(shape);
  // An element of BYTES takes its length at least.
  const int64_t element_size =
      std::max(ElementSize(type), type == DataType::kBytes ? size_t{4} : 0);
  if (!elements || *elements > limits::kMaxMessageBytes / element_size) {
    return InputError("request.shape", input, "has a shape that no message could fill");
  }
  if (type == DataType::kBytes && *elements > limits::kMaxBytesElements) {
    return InputError("request.shape", input,
                      absl::StrCat("has more than ", limits::kMaxBytesElements, " elements"));
  }
  return *elements;
}

absl::Status CheckInputBytes(const InputTensor& input, int64_t elements) {
  if (input.type == DataType::kBytes) {
    if (IsBytesTensor(input.data, elements)) return absl::OkStatus();
    return InputError(
        "request.bytes_framing", input.name,
        absl::StrCat("is not ", elements, " elements of a length and so many bytes each"));
  }
  const size_t expected = elements * ElementSize(input.type);
  if (input.data.size() == expected) return absl::OkStatus();
  return InputError(
      "request.input_size", input.name,
      absl::StrCat("has ", input.data.size(), " bytes where its shape says ", expected));
}

absl::Status CheckInputCount(size_t inputs) {
  if (inputs <= static_cast<size_t>(limits::kMaxInputsPerRequest)) return absl::OkStatus();
  return InvalidArgument("request.input_count",
                         absl::StrCat("more than ", limits::kMaxInputsPerRequest, " inputs"));
}

absl::Status AddInput(InputTensor input, NamedTensors* inputs) {
  for (const InputTensor& other : *inputs) {
    if (other.name == input.name) {
      return InvalidArgument("request.input_duplicate",
                             absl::StrCat("two inputs are called ", InQuotes(input.name)));
    }
  }
  inputs->push_back(std::move(input));
  return absl::OkStatus();
}

absl::Status CheckOutputCount(size_t outputs) {
  if (outputs <= static_cast<size_t>(limits::kMaxInputsPerRequest)) return absl::OkStatus();
  return InvalidArgument("request.output_count",
                         absl::StrCat("more than ", limits::kMaxInputsPerRequest, " outputs"));
}

absl::Status AddOutput(std::string_view name, uint64_t classes,
                       std::optional<SharedMemorySpan> shared_memory, WantedTensors* wanted) {
  for (const RequestedOutput& other : wanted->outputs) {
    if (other.name == name) {
      return InvalidArgument("request.output_duplicate",
                             absl::StrCat("output ", InQuotes(name), " is asked for twice"));
    }
  }
  wanted->outputs.push_back(
      {.name = std::string(name),
       .classification = static_cast<int64_t>(std::min<uint64_t>(classes, limits::kMaxClasses)),
       .shared_memory = std::move(shared_memory)});
  return absl::OkStatus();
}

absl::Status CheckAnswerBytes(size_t bytes, size_t max_bytes) {
  if (bytes <= max_bytes) return absl::OkStatus();
  return ResourceExhausted(
      "request.answer_too_large",
      absl::StrCat("the answer has ", bytes, " bytes; a message holds at most ", max_bytes,
                   ": send fewer images in one request"));
}

}  // namespace fovea
