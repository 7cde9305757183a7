#include "server/transport/grpc/oip_codec.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
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

// A whole number of at least 0, in either kind of integer; absent: 0.
absl::StatusOr<uint64_t> CountParameter(const Parameters& parameters, const std::string& key) {
  const auto found = parameters.find(key);
  if (found == parameters.end()) return 0;
  const InferParameter& parameter = found->second;
  if (parameter.has_uint64_param()) return parameter.uint64_param();
  if (parameter.has_int64_param() && parameter.int64_param() >= 0) return parameter.int64_param();
  return NoCount(key);
}

// One input of the request; `raw` is its entry of raw_input_contents, null where the contents are
// typed.
absl::StatusOr<InputTensor> ReadInput(const SplitMessage::Pieces& encoded,
                                      SplitMessage::Pieces* raw, const ReceivedBytes& message,
                                      size_t* header_budget, ContentsBudget* contents_budget,
                                      google::protobuf::Arena* arena) {
  constexpr int kWanted[] = {WireInput::kContentsFieldNumber};
  SplitMessage split;
  FOVEA_RETURN_IF_ERROR(
      Split(encoded, kWanted, limits::kMaxInputsPerRequest, header_budget, &split));
  auto* input = google::protobuf::Arena::CreateMessage<WireInput>(arena);
  if (!ParsePieces(split.rest, input)) return MalformedMessage();

  FOVEA_ASSIGN_OR_RETURN(const DataType type, ReadInputType(input->name(), input->datatype()));
  FOVEA_RETURN_IF_ERROR(CheckParameters(input->parameters()));
  const std::span<const int64_t> shape(input->shape().data(), input->shape().size());
  FOVEA_ASSIGN_OR_RETURN(const int64_t elements, CheckInputShape(input->name(), shape, type));

  InputTensor tensor{.name = input->name(), .type = type, .shape = {shape.begin(), shape.end()}};
  // Several fields of one message type are one message: their bytes joined.
  SplitMessage::Pieces contents;
  for (const SplitMessage::Field& field : split.fields) {
    contents.insert(contents.end(), field.bytes.begin(), field.bytes.end());
  }
  if (raw != nullptr) {
    if (!contents.empty()) {
      return InputError("request.two_contents", input->name(),
                        "has contents although the request has raw_input_contents");
    }
    tensor.data = ScatteredBytes(std::move(*raw), message.owner);
    FOVEA_RETURN_IF_ERROR(CheckInputBytes(tensor, elements));
  } else {
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
  if (!raw.empty() && raw.size() != inputs.size()) {
    return InvalidArgument("request.raw_count", absl::StrCat(raw.size(), " raw_input_contents for ",
                                                             inputs.size(), " inputs"));
  }
  FOVEA_RETURN_IF_ERROR(CheckInputCount(inputs.size()));
  ContentsBudget contents_budget{.memory = request->memory};
  NamedTensors tensors;
  tensors.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    FOVEA_ASSIGN_OR_RETURN(InputTensor tensor,
                           ReadInput(inputs[i]->bytes, raw.empty() ? nullptr : &raw[i]->bytes,
                                     message, header_budget, &contents_budget, arena));
    FOVEA_RETURN_IF_ERROR(AddInput(std::move(tensor), &tensors));
  }
  request->input = std::move(tensors);
  return absl::OkStatus();
}

absl::Status ReadOutputs(const ModelInferRequest& header, InferenceRequest* request) {
  FOVEA_RETURN_IF_ERROR(CheckOutputCount(header.outputs_size()));
  WantedTensors wanted;
  for (const auto& output : header.outputs()) {
    FOVEA_RETURN_IF_ERROR(CheckParameters(output.parameters()));
    FOVEA_ASSIGN_OR_RETURN(const uint64_t classes,
                           CountParameter(output.parameters(), "classification"));
    FOVEA_RETURN_IF_ERROR(AddOutput(output.name(), classes, &wanted));
  }
  request->options = std::move(wanted);
  return absl::OkStatus();
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
  }
  size_t bytes = head->ByteSizeLong();
  for (const OutputTensor& output : outputs) bytes += output.bytes();
  FOVEA_RETURN_IF_ERROR(CheckAnswerBytes(bytes, max_bytes));
  EncodedMessage message;
  message.Append(head->SerializeAsString());
  for (OutputTensor& output : outputs) {
    message.AppendBytes(ModelInferResponse::kRawOutputContentsFieldNumber, std::move(output.data),
                        std::move(output.further));
  }

  // The receipt holds the time of everything before it: what is left is the receipt itself.
  static const auto* const kStageKeys = [] {
    auto* keys = new std::array<std::string, kStageCount>;
    for (int i = 0; i < kStageCount; ++i) {
      (*keys)[i] = absl::StrCat("fovea.", std::string(kStageNames[i]), "_ns");
    }
    return keys;
  }();
  Receipt& receipt = response.receipt;
  auto* tail = google::protobuf::Arena::CreateMessage<ModelInferResponse>(&arena);
  Parameters& parameters = *tail->mutable_parameters();
  parameters["fovea.batch_size"].set_int64_param(receipt.batch_size);
  parameters["fovea.batch_peak_bytes"].set_int64_param(receipt.batch_peak_bytes);
  parameters["fovea.padding"].set_double_param(receipt.padding);
  if (response.untrained) parameters["fovea.untrained"].set_bool_param(true);
  receipt.stages.EndStage(Stage::kEncode, clock.Now());
  for (int i = 0; i < kStageCount; ++i) {
    parameters[(*kStageKeys)[i]].set_int64_param(receipt.stages[static_cast<Stage>(i)]);
  }
  message.Append(tail->SerializeAsString());
  return message;
}

EncodedMessage WriteStreamResponse(EncodedMessage infer_response) {
  EncodedMessage message;
  message.AppendMessage(inference::ModelStreamInferResponse::kInferResponseFieldNumber,
                        std::move(infer_response));
  return message;
}

EncodedMessage WriteStreamError(std::string_view text, std::string_view code,
                                std::string_view reason, std::string_view id) {
  inference::ModelStreamInferResponse response;
  response.set_error_message(absl::StrCat(std::string(text), " [", std::string(code),
                                          reason.empty() ? "" : " ", std::string(reason), "]"));
  ModelInferResponse& beside = *response.mutable_infer_response();
  beside.set_id(std::string(id));
  Parameters& parameters = *beside.mutable_parameters();
  parameters["fovea.code"].set_string_param(std::string(code));
  parameters["fovea.reason"].set_string_param(std::string(reason));
  EncodedMessage message;
  message.Append(response.SerializeAsString());
  return message;
}

}  // namespace fovea
