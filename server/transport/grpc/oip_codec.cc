#include "server/transport/grpc/oip_codec.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "proto/inference/inference.pb.h"
#include "server/transport/grpc/piece_stream.h"
#include "server/transport/grpc/tensor_contents.h"
#include "server/transport/grpc/wire_reader.h"
#include "server/transport/messages/infer_rules.h"
#include "server/transport/messages/receipt_parameters.h"
#include "server/transport/messages/shared_tensors.h"

namespace fovea {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using Parameters = google::protobuf::Map<std::string, InferParameter>;
using WireInput = ModelInferRequest::InferInputTensor;

// The header of most requests fits: no allocation for it.
constexpr size_t kArenaBytes = 4096;

absl::Status CheckParameters(const Parameters& parameters) {
  FOVEA_RETURN_IF_ERROR(CheckParameterCount(parameters.size()));
  for (const auto& [key, value] : parameters) FOVEA_RETURN_IF_ERROR(CheckParameterName(key));
  return absl::OkStatus();
}

// The same of a tensor, which may lie in shared memory; where, or nothing.
absl::StatusOr<std::optional<SharedMemorySpan>> CheckTensorParameters(
    const Parameters& parameters) {
  FOVEA_RETURN_IF_ERROR(CheckParameterCount(parameters.size()));
  std::optional<SharedMemorySpan> span;
  for (const auto& [key, value] : parameters) {
    if (!IsSharedMemoryParameter(key)) {
      FOVEA_RETURN_IF_ERROR(CheckParameterName(key));
      continue;
    }
    std::optional<std::string_view> text;
    std::optional<int64_t> number;
    if (value.has_string_param()) text = value.string_param();
    if (value.has_int64_param()) number = value.int64_param();
    // One that is larger becomes negative, and is as wrong.
    if (value.has_uint64_param()) number = static_cast<int64_t>(value.uint64_param());
    SetSharedMemory(key, text, number, &span);
  }
  return span;
}

// A whole number of at least 0, in either kind of integer; absent: 0.
absl::StatusOr<uint64_t> CountParameter(const Parameters& parameters, const std::string& key) {
  const auto found = parameters.find(key);
  if (found == parameters.end()) return 0;
  const InferParameter& parameter = found->second;
  if (parameter.has_uint64_param()) return parameter.uint64_param();
  if (parameter.has_int64_param() && parameter.int64_param() >= 0) return parameter.int64_param();
  return NoCount(key);
}

// raw_input_contents: one for each input, in their order, but for those in shared memory. Or none
// at all: the contents are typed.
class RawContents {
 public:
  RawContents(std::vector<SplitMessage::Field*> entries, size_t inputs)
      : entries_(std::move(entries)), inputs_(inputs) {}

  bool empty() const { return entries_.empty(); }
  // The next input's; null where there are fewer than inputs.
  SplitMessage::Pieces* Next() {
    return next_ < entries_.size() ? &entries_[next_++]->bytes : nullptr;
  }
  bool AtEnd() const { return next_ == entries_.size(); }
  absl::Status WrongCount() const {
    return InvalidArgument(
        "request.raw_count",
        absl::StrCat(entries_.size(), " raw_input_contents for ", inputs_, " inputs"));
  }

 private:
  const std::vector<SplitMessage::Field*> entries_;
  const size_t inputs_;
  size_t next_ = 0;
};

// One input of `request`, to which it is not yet added.
absl::StatusOr<InputTensor> ReadInput(const SplitMessage::Pieces& encoded, RawContents* raw,
                                      const ReceivedBytes& message, size_t* header_budget,
                                      ContentsBudget* contents_budget,
                                      google::protobuf::Arena* arena, InferenceRequest* request) {
  constexpr int kWanted[] = {WireInput::kContentsFieldNumber};
  SplitMessage split;
  FOVEA_RETURN_IF_ERROR(
      Split(encoded, kWanted, limits::kMaxInputsPerRequest, header_budget, &split));
  auto* input = google::protobuf::Arena::CreateMessage<WireInput>(arena);
  if (!ParsePieces(split.rest, input)) return MalformedMessage();

  FOVEA_ASSIGN_OR_RETURN(const DataType type, ReadInputType(input->name(), input->datatype()));
  FOVEA_ASSIGN_OR_RETURN(const std::optional<SharedMemorySpan> shared_memory,
                         CheckTensorParameters(input->parameters()));
  const std::span<const int64_t> shape(input->shape().data(), input->shape().size());
  FOVEA_ASSIGN_OR_RETURN(const int64_t elements, CheckInputShape(input->name(), shape, type));

  InputTensor tensor{.name = input->name(), .type = type, .shape = {shape.begin(), shape.end()}};
  // Several fields of one message type are one message: their bytes joined.
  SplitMessage::Pieces contents;
  for (const SplitMessage::Field& field : split.fields) {
    contents.insert(contents.end(), field.bytes.begin(), field.bytes.end());
  }
  if (shared_memory) {
    if (!contents.empty()) {
      return InputError("request.two_contents", input->name(),
                        "has contents although it lies in shared memory");
    }
    FOVEA_RETURN_IF_ERROR(ReadSharedInput(*shared_memory, elements, request, &tensor));
  } else if (!raw->empty()) {
    if (!contents.empty()) {
      return InputError("request.two_contents", input->name(),
                        "has contents although the request has raw_input_contents");
    }
    SplitMessage::Pieces* const bytes = raw->Next();
    if (bytes == nullptr) return raw->WrongCount();
    tensor.data = ScatteredBytes(std::move(*bytes), message.owner);
    FOVEA_RETURN_IF_ERROR(CheckInputBytes(tensor, elements));
  } else {
    std::get<WantedTensors>(request->options).typed_contents = true;
    FOVEA_ASSIGN_OR_RETURN(
        tensor.data, ReadTensorContents(contents, message.owner, type, elements, contents_budget));
  }
  return tensor;
}

absl::Status ReadInputs(SplitMessage& split, const ReceivedBytes& message, size_t* header_budget,
                        google::protobuf::Arena* arena, InferenceRequest* request) {
  std::vector<SplitMessage::Field*> inputs;
  std::vector<SplitMessage::Field*> raw;
  for (SplitMessage::Field& field : split.fields) {
    (field.field == ModelInferRequest::kInputsFieldNumber ? inputs : raw).push_back(&field);
  }
  RawContents contents(std::move(raw), inputs.size());
  FOVEA_RETURN_IF_ERROR(CheckInputCount(inputs.size()));
  ContentsBudget contents_budget{.memory = request->memory};
  NamedTensors tensors;
  tensors.reserve(inputs.size());
  for (const SplitMessage::Field* const input : inputs) {
    FOVEA_ASSIGN_OR_RETURN(InputTensor tensor,
                           ReadInput(input->bytes, &contents, message, header_budget,
                                     &contents_budget, arena, request));
    FOVEA_RETURN_IF_ERROR(AddInput(std::move(tensor), &tensors));
  }
  if (!contents.AtEnd()) return contents.WrongCount();
  request->input = std::move(tensors);
  return absl::OkStatus();
}

absl::Status ReadOutputs(const ModelInferRequest& header, InferenceRequest* request) {
  FOVEA_RETURN_IF_ERROR(CheckOutputCount(header.outputs_size()));
  WantedTensors wanted;
  for (const auto& output : header.outputs()) {
    FOVEA_ASSIGN_OR_RETURN(const std::optional<SharedMemorySpan> shared_memory,
                           CheckTensorParameters(output.parameters()));
    FOVEA_ASSIGN_OR_RETURN(const uint64_t classes,
                           CountParameter(output.parameters(), "classification"));
    FOVEA_RETURN_IF_ERROR(AddOutput(output.name(), classes, shared_memory, &wanted));
  }
  request->options = std::move(wanted);
  return absl::OkStatus();
}

// Each tensor of `head` with its contents, which are taken.
void AppendTypedOutputs(const ModelInferResponse& head, TensorResults& outputs,
                        EncodedMessage* message) {
  using Tensor = ModelInferResponse::InferOutputTensor;
  for (size_t i = 0; i < outputs.size(); ++i) {
    EncodedMessage tensor;
    tensor.Append(head.outputs(static_cast<int>(i)).SerializeAsString());
    if (!outputs[i].shared_memory) {
      tensor.AppendMessage(Tensor::kContentsFieldNumber,
                           WriteTensorContents(std::move(outputs[i])));
    }
    message->AppendMessage(ModelInferResponse::kOutputsFieldNumber, std::move(tensor));
  }
}

// Says in an inference.ModelInferResponse that its request has no other.
EncodedMessage Final(EncodedMessage infer_response) {
  static const std::string* const parameter = [] {
    ModelInferResponse response;
    (*response.mutable_parameters())["triton_final_response"].set_bool_param(true);
    return new std::string(response.SerializeAsString());
  }();
  infer_response.Append(*parameter);
  return infer_response;
}

}  // namespace

absl::Status ReadModelInferRequest(const ReceivedBytes& message, CheckModel check_model,
                                   InferenceRequest* request) {
  constexpr int kWanted[] = {ModelInferRequest::kInputsFieldNumber,
                             ModelInferRequest::kRawInputContentsFieldNumber};
  size_t header_budget = limits::kMaxRequestHeaderBytes;
  SplitMessage split;
  FOVEA_RETURN_IF_ERROR(
      Split(message.pieces, kWanted, 2 * limits::kMaxInputsPerRequest, &header_budget, &split));

  alignas(8) std::array<char, kArenaBytes> first_block;
  google::protobuf::Arena arena(first_block.data(), first_block.size());
  auto* header = google::protobuf::Arena::CreateMessage<ModelInferRequest>(&arena);
  if (!ParsePieces(split.rest, header)) return MalformedMessage();

  FOVEA_RETURN_IF_ERROR(CheckRequestId(header->id()));
  request->id = header->id();
  request->model_name = header->model_name();
  request->model_version = header->model_version();

  FOVEA_RETURN_IF_ERROR(CheckParameters(header->parameters()));
  FOVEA_ASSIGN_OR_RETURN(request->priority, CountParameter(header->parameters(), "priority"));
  FOVEA_ASSIGN_OR_RETURN(request->timeout_us, CountParameter(header->parameters(), "timeout"));
  FOVEA_RETURN_IF_ERROR(ReadOutputs(*header, request));
  FOVEA_RETURN_IF_ERROR(check_model(*request));
  return ReadInputs(split, message, &header_budget, &arena, request);
}

absl::StatusOr<EncodedMessage> WriteModelInferResponse(InferenceResponse& response,
                                                       const Clock& clock, size_t max_bytes) {
  auto& outputs = std::get<TensorResults>(response.results);  // what ReadModelInferRequest asks for
  alignas(8) std::array<char, kArenaBytes> first_block;
  google::protobuf::Arena arena(first_block.data(), first_block.size());
  auto* head = google::protobuf::Arena::CreateMessage<ModelInferResponse>(&arena);
  head->set_model_name(response.model_name);
  head->set_model_version(response.model_version);
  head->set_id(response.id);
  for (const OutputTensor& output : outputs) {
    auto* tensor = head->add_outputs();
    tensor->set_name(output.name);
    tensor->set_datatype(std::string(DataTypeName(output.type)));
    tensor->mutable_shape()->Add(output.shape.begin(), output.shape.end());
    if (output.shared_memory) {
      Parameters& parameters = *tensor->mutable_parameters();
      parameters["shared_memory_region"].set_string_param(output.shared_memory->region);
      parameters["shared_memory_byte_size"].set_int64_param(output.shared_memory->byte_size);
      parameters["shared_memory_offset"].set_int64_param(output.shared_memory->offset);
    }
  }
  const bool typed = response.typed_contents &&
                     std::ranges::all_of(outputs, HasTypedContents, &OutputTensor::type);
  size_t bytes = head->ByteSizeLong();
  for (const OutputTensor& output : outputs) {
    bytes += typed ? TypedContentsBytes(output) : output.bytes();
  }
  FOVEA_RETURN_IF_ERROR(CheckAnswerBytes(bytes, max_bytes));
  EncodedMessage message;
  if (typed) {
    AppendTypedOutputs(*head, outputs, &message);
    head->clear_outputs();
    message.Append(head->SerializeAsString());
  } else {
    message.Append(head->SerializeAsString());
    for (OutputTensor& output : outputs) {
      message.AppendBytes(ModelInferResponse::kRawOutputContentsFieldNumber, std::move(output.data),
                          std::move(output.further));
    }
  }

  // The receipt holds the time of everything before it: what is left is the receipt itself.
  response.receipt.stages.EndStage(Stage::kEncode, clock.Now());
  auto* tail = google::protobuf::Arena::CreateMessage<ModelInferResponse>(&arena);
  ForEachReceiptParameter(response, [&](std::string_view name, auto value) {
    using Value = decltype(value);
    auto& parameter = (*tail->mutable_parameters())[std::string(name)];
    if constexpr (std::is_same_v<Value, bool>) {
      parameter.set_bool_param(value);
    } else if constexpr (std::is_same_v<Value, int64_t>) {
      parameter.set_int64_param(value);
    } else if constexpr (std::is_same_v<Value, double>) {
      parameter.set_double_param(value);
    } else {
      parameter.set_string_param(std::string(value));
    }
  });
  message.Append(tail->SerializeAsString());
  return message;
}

EncodedMessage WriteStreamResponse(EncodedMessage infer_response) {
  EncodedMessage message;
  message.AppendMessage(inference::ModelStreamInferResponse::kInferResponseFieldNumber,
                        Final(std::move(infer_response)));
  return message;
}

EncodedMessage WriteStreamError(std::string_view text, std::string_view code,
                                std::string_view reason, std::string_view id) {
  inference::ModelStreamInferResponse response;
  response.set_error_message(absl::StrCat(std::string(text), " [", std::string(code),
                                          reason.empty() ? "" : " ", std::string(reason), "]"));
  ModelInferResponse beside;
  beside.set_id(std::string(id));
  Parameters& parameters = *beside.mutable_parameters();
  parameters["fovea.code"].set_string_param(std::string(code));
  parameters["fovea.reason"].set_string_param(std::string(reason));
  EncodedMessage encoded;
  encoded.Append(beside.SerializeAsString());
  EncodedMessage message = WriteStreamResponse(std::move(encoded));
  message.Append(response.SerializeAsString());
  return message;
}

}  // namespace fovea
