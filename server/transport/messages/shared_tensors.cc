#include "server/transport/messages/shared_tensors.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/transport/messages/infer_rules.h"

namespace fovea {
namespace {

constexpr std::string_view kRegion = "shared_memory_region";
constexpr std::string_view kByteSize = "shared_memory_byte_size";
constexpr std::string_view kOffset = "shared_memory_offset";

}  // namespace

bool IsSharedMemoryParameter(std::string_view name) {
  return name == kRegion || name == kByteSize || name == kOffset;
}

void SetSharedMemory(std::string_view name, std::optional<std::string_view> text,
                     std::optional<int64_t> number, std::optional<SharedMemorySpan>* span) {
  if (!*span) span->emplace();
  if (name == kRegion) (*span)->region = std::string(text.value_or(""));
  if (name == kByteSize) (*span)->byte_size = number.value_or(-1);
  if (name == kOffset) (*span)->offset = number.value_or(-1);
}

absl::Status CheckSharedMemory(const InferenceRequest& request) {
  if (request.shared_memory != nullptr) return absl::OkStatus();
  return Unimplemented("request.shared_memory",
                       "tensors in shared memory are not supported by this server");
}

absl::Status ReadSharedInput(const SharedMemorySpan& span, int64_t elements,
                             InferenceRequest* request, InputTensor* input) {
  FOVEA_RETURN_IF_ERROR(CheckSharedMemory(*request));
  FOVEA_ASSIGN_OR_RETURN(const SharedMemoryPlace place, request->shared_memory->Find(span));
  if (span.byte_size > limits::kMaxMessageBytes) {
    return ResourceExhausted("request.too_large", absl::StrCat("an input of more than ",
                                                               limits::kMaxMessageBytes, " bytes"));
  }
  FOVEA_RETURN_IF_ERROR(request->TakeMemory(span.byte_size));
  const auto size = static_cast<size_t>(span.byte_size);
  // Not cleared: Read fills it, or it goes.
  const std::shared_ptr<std::byte[]> bytes = std::make_shared_for_overwrite<std::byte[]>(size);
  FOVEA_RETURN_IF_ERROR(place.Read({bytes.get(), size}));
  input->data = ScatteredBytes({bytes.get(), size}, bytes);
  return CheckInputBytes(*input, elements);
}

absl::Status SharedOutputs::Find(const InferenceRequest& request) {
  const auto* wanted = std::get_if<WantedTensors>(&request.options);
  if (wanted == nullptr) return absl::OkStatus();
  for (const RequestedOutput& output : wanted->outputs) {
    if (!output.shared_memory) continue;
    FOVEA_RETURN_IF_ERROR(CheckSharedMemory(request));
    FOVEA_ASSIGN_OR_RETURN(SharedMemoryPlace place,
                           request.shared_memory->Find(*output.shared_memory));
    outputs_.push_back({output.name, *output.shared_memory, std::move(place)});
  }
  return absl::OkStatus();
}

absl::Status SharedOutputs::Write(InferenceResponse& response) const {
  if (outputs_.empty()) return absl::OkStatus();
  std::vector<std::pair<OutputTensor*, const Output*>> moves;
  for (OutputTensor& tensor : std::get<TensorResults>(response.results)) {
    const auto found = std::ranges::find(outputs_, tensor.name, &Output::name);
    if (found == outputs_.end()) continue;
    if (tensor.bytes() > found->place.byte_size()) {
      return InvalidArgument(
          "shared_memory.output_too_small",
          absl::StrCat("output ", InQuotes(tensor.name), " has ", tensor.bytes(),
                       " bytes; its shared memory has ", found->place.byte_size()));
    }
    moves.emplace_back(&tensor, &*found);
  }
  for (const auto& [tensor, output] : moves) {
    FOVEA_RETURN_IF_ERROR(output->place.Write(0, tensor->data));
    uint64_t at = tensor->data.size();
    for (const std::string& part : tensor->further) {
      FOVEA_RETURN_IF_ERROR(output->place.Write(at, part));
      at += part.size();
    }
    tensor->data = {};
    tensor->further.clear();
    tensor->shared_memory = output->span;
    tensor->shared_memory->byte_size = static_cast<int64_t>(at);
  }
  return absl::OkStatus();
}

}  // namespace fovea
