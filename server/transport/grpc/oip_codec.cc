#include "server/transport/grpc/oip_codec.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "proto/inference/inference.pb.h"
#include "server/core/bytes_tensor.h"
#include "server/core/quote.h"
#include "server/transport/grpc/piece_stream.h"
#include "server/transport/grpc/tensor_contents.h"
#include "server/transport/grpc/wire_reader.h"

namespace fovea {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using Parameters = google::protobuf::Map<std::string, InferParameter>;
using WireInput = ModelInferRequest::InferInputTensor;

// The header of most requests fits: no allocation for it.
constexpr size_t kArenaBytes = 4096;

// Parameters of requests and of tensors. Unknown ones are ignored, as Triton ignores them.

bool NamesUrl(std::string_view key) {
  const std::string lower = absl::AsciiStrToLower({key.data(), key.size()});
  return lower == "url" || lower == "uri" || absl::EndsWith(lower, "_url") ||
         absl::EndsWith(lower, "_uri");
}

absl::Status CheckParameters(const Parameters& parameters) {
  if (parameters.size() > static_cast<size_t>(limits::kMaxParametersPerRequest)) {
    return InvalidArgument(
        "request.parameter_count",
        absl::StrCat("more than ", limits::kMaxParametersPerRequest, " parameters"));
  }
  for (const auto& [key, value] : parameters) {
    if (absl::StartsWith(key, "shared_memory_")) {
      return Unimplemented("request.shared_memory",
                           "tensors in shared memory are not supported by this server");
    }
    if (NamesUrl(key)) {
      return InvalidArgument("request.url", "URL inputs are not supported: send the image itself");
    }
  }
  return absl::OkStatus();
}

// A whole number of at least 0, in either kind of integer; absent: 0.
absl::StatusOr<uint64_t> CountParameter(const Parameters& parameters, const std::string& key) {
  const auto found = parameters.find(key);
  if (found == parameters.end()) return 0;
  const InferParameter& parameter = found->second;
  if (parameter.has_uint64_param()) return parameter.uint64_param();
  if (parameter.has_int64_param() && parameter.int64_param() >= 0) return parameter.int64_param();
  return InvalidArgument("request.parameter",
                         absl::StrCat("parameter ", key, " is no whole number of at least 0"));
}

// Inputs.

absl::Status TensorError(std::string_view reason, const WireInput& input, std::string_view what) {
  return InvalidArgument(reason,
                         absl::StrCat("input ", InQuotes(input.name()), " ", std::string(what)));
}

// The number of elements, which with its bytes is no more than a message holds.
absl::StatusOr<int64_t> CheckShape(const WireInput& input, DataType type) {
  if (input.shape_size() > limits::kMaxTensorRank) {
    return TensorError("request.shape", input,
                       absl::StrCat("has more than ", limits::kMaxTensorRank, " dimensions"));
  }
  if (std::any_of(input.shape().begin(), input.shape().end(), [](int64_t d) { return d <= 0; })) {
    return TensorError("request.shape", input, "has a dimension below 1");
  }
  const auto elements =
      ElementCount({input.shape().data(), static_cast<size_t>(input.shape_size())});
  // An element of BYTES takes its length at least.
  const int64_t element_size =
      std::max(ElementSize(type), type == DataType::kBytes ? size_t{4} : 0);
  if (!elements || *elements > limits::kMaxMessageBytes / element_size) {
    return TensorError("request.shape", input, "has a shape that no message could fill");
  }
  if (type == DataType::kBytes && *elements > limits::kMaxBytesElements) {
    return TensorError("request.shape", input,
                       absl::StrCat("has more than ", limits::kMaxBytesElements, " elements"));
  }
  return *elements;
}

absl::Status CheckRawSize(const WireInput& input, const InputTensor& tensor, int64_t elements) {
  if (tensor.type == DataType::kBytes) {
    if (IsBytesTensor(tensor.data, elements)) return absl::OkStatus();
    return TensorError(
        "request.bytes_framing", input,
        absl::StrCat("is not ", elements, " elements of a length and so many bytes each"));
  }
  const size_t expected = elements * ElementSize(tensor.type);
  if (tensor.data.size() == expected) return absl::OkStatus();
  return TensorError(
      "request.input_size", input,
      absl::StrCat("has ", tensor.data.size(), " bytes where its shape says ", expected));
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

  if (input->name().empty()) {
    return InvalidArgument("request.input_name", "an input has no name");
  }
  FOVEA_RETURN_IF_ERROR(CheckParameters(input->parameters()));
  const auto type = ParseDataType(input->datatype());
  if (!type) {
    return TensorError("request.datatype", *input,
                       absl::StrCat("has the unknown datatype ", InQuotes(input->datatype())));
  }
  FOVEA_ASSIGN_OR_RETURN(const int64_t elements, CheckShape(*input, *type));

  InputTensor tensor{.name = input->name(),
                     .type = *type,
                     .shape = {input->shape().begin(), input->shape().end()}};
  // Several fields of one message type are one message: their bytes joined.
  SplitMessage::Pieces contents;
  for (const SplitMessage::Field& field : split.fields) {
    contents.insert(contents.end(), field.bytes.begin(), field.bytes.end());
  }
  if (raw != nullptr) {
    if (!contents.empty()) {
      return TensorError("request.two_contents", *input,
                         "has contents although the request has raw_input_contents");
    }
    tensor.data = ScatteredBytes(std::move(*raw), message.owner);
    FOVEA_RETURN_IF_ERROR(CheckRawSize(*input, tensor, elements));
  } else {
    FOVEA_ASSIGN_OR_RETURN(
        tensor.data, ReadTensorContents(contents, message.owner, *type, elements, contents_budget));
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
  if (inputs.size() > static_cast<size_t>(limits::kMaxInputsPerRequest)) {
    return InvalidArgument("request.input_count",
                           absl::StrCat("more than ", limits::kMaxInputsPerRequest, " inputs"));
  }
  ContentsBudget contents_budget{.memory = request->memory};
  NamedTensors tensors;
  tensors.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    FOVEA_ASSIGN_OR_RETURN(InputTensor tensor,
                           ReadInput(inputs[i]->bytes, raw.empty() ? nullptr : &raw[i]->bytes,
                                     message, header_budget, &contents_budget, arena));
    for (const InputTensor& other : tensors) {
      if (other.name == tensor.name) {
        return InvalidArgument("request.input_duplicate",
                               absl::StrCat("two inputs are called ", InQuotes(tensor.name)));
      }
    }
    tensors.push_back(std::move(tensor));
  }
  request->input = std::move(tensors);
  return absl::OkStatus();
}

absl::Status ReadOutputs(const ModelInferRequest& header, InferenceRequest* request) {
  if (header.outputs_size() > limits::kMaxInputsPerRequest) {
    return InvalidArgument("request.output_count",
                           absl::StrCat("more than ", limits::kMaxInputsPerRequest, " outputs"));
  }
  WantedTensors wanted;
  for (const auto& output : header.outputs()) {
    FOVEA_RETURN_IF_ERROR(CheckParameters(output.parameters()));
    for (const RequestedOutput& other : wanted.outputs) {
      if (other.name == output.name()) {
        return InvalidArgument(
            "request.output_duplicate",
            absl::StrCat("output ", InQuotes(output.name()), " is asked for twice"));
      }
    }
    FOVEA_ASSIGN_OR_RETURN(const uint64_t classes,
                           CountParameter(output.parameters(), "classification"));
    wanted.outputs.push_back(
        {.name = output.name(),
         .classification = static_cast<int64_t>(std::min<uint64_t>(classes, limits::kMaxClasses))});
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

  if (header->id().size() > limits::kMaxRequestIdBytes) {
    return InvalidArgument(
        "request.id", absl::StrCat("the id is longer than ", limits::kMaxRequestIdBytes, " bytes"));
  }
  request->id = header->id();
  request->model_name = header->model_name();
  request->model_version = header->model_version();

  FOVEA_RETURN_IF_ERROR(CheckParameters(header->parameters()));
  FOVEA_ASSIGN_OR_RETURN(request->priority, CountParameter(header->parameters(), "priority"));
  FOVEA_ASSIGN_OR_RETURN(const uint64_t timeout_us,
                         CountParameter(header->parameters(), "timeout"));
  request->LimitTime(timeout_us);
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
