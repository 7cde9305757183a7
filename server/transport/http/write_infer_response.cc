#include "server/transport/http/write_infer_response.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/utf8.h"
#include "server/core/quote.h"
#include "server/transport/http/json_text.h"
#include "server/transport/messages/infer_rules.h"
#include "server/transport/messages/receipt_parameters.h"

namespace fovea {
namespace {

template <typename Number>
bool AppendNumbers(std::string_view bytes, std::string* json) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + at, sizeof(number));
    if constexpr (std::is_floating_point_v<Number>) {
      if (!std::isfinite(number)) return false;
    }
    if (json->back() != '[') json->push_back(',');
    if constexpr (std::is_same_v<Number, bool>) {
      json->append(number ? "true" : "false");
    } else {
      AppendNumber(number, json);
    }
  }
  return true;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint first = DecodeUtf8(text);
    if (first.value == CodePoint::kInvalid) return false;
    text.remove_prefix(first.length);
  }
  return true;
}

bool AppendTexts(std::string_view bytes, std::string* json) {
  while (bytes.size() >= sizeof(uint32_t)) {
    uint32_t size;
    std::memcpy(&size, bytes.data(), sizeof(size));
    const std::string_view text = bytes.substr(sizeof(size), size);
    if (!IsUtf8(text)) return false;
    if (json->back() != '[') json->push_back(',');
    AppendText(text, json);
    bytes.remove_prefix(sizeof(size) + text.size());
  }
  return true;
}

// Whether JSON has such elements. A part of an output holds whole elements.
bool AppendElements(DataType type, std::string_view bytes, std::string* json) {
  switch (type) {
    case DataType::kBool:
      return AppendNumbers<bool>(bytes, json);
    case DataType::kUint8:
      return AppendNumbers<uint8_t>(bytes, json);
    case DataType::kUint16:
      return AppendNumbers<uint16_t>(bytes, json);
    case DataType::kUint32:
      return AppendNumbers<uint32_t>(bytes, json);
    case DataType::kUint64:
      return AppendNumbers<uint64_t>(bytes, json);
    case DataType::kInt8:
      return AppendNumbers<int8_t>(bytes, json);
    case DataType::kInt16:
      return AppendNumbers<int16_t>(bytes, json);
    case DataType::kInt32:
      return AppendNumbers<int32_t>(bytes, json);
    case DataType::kInt64:
      return AppendNumbers<int64_t>(bytes, json);
    case DataType::kFp32:
      return AppendNumbers<float>(bytes, json);
    case DataType::kFp64:
      return AppendNumbers<double>(bytes, json);
    case DataType::kBytes:
      return AppendTexts(bytes, json);
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  return false;
}

std::string ReceiptParameters(const InferenceResponse& response) {
  std::string json = "{";
  ForEachReceiptParameter(response, [&](std::string_view name, auto value) {
    if (json.size() > 1) json.push_back(',');
    json.append("\"").append(name).append("\":");
    using Value = decltype(value);
    if constexpr (std::is_same_v<Value, bool>) {
      json.append(value ? "true" : "false");
    } else if constexpr (std::is_arithmetic_v<Value>) {
      AppendNumber(value, &json);
    } else {
      AppendText(value, &json);
    }
  });
  return json + "}";
}

}  // namespace

int64_t JsonBytes(const InferenceResponse& response, const OutputForms& forms) {
  constexpr int64_t kMostDigits = 26, kMostEscaped = 6;
  int64_t bytes = 0;
  for (const OutputTensor& output : std::get<TensorResults>(response.results)) {
    if (forms.IsBinary(output.name)) continue;
    const auto size = static_cast<int64_t>(output.bytes());
    bytes += output.type == DataType::kBytes
                 ? kMostEscaped * size
                 : size / static_cast<int64_t>(ElementSize(output.type)) * kMostDigits;
  }
  return bytes;
}

absl::StatusOr<InferBody> WriteInferResponse(InferenceResponse& response, const OutputForms& forms,
                                             const Clock& clock, size_t max_bytes) {
  auto& outputs = std::get<TensorResults>(response.results);  // what ReadInferRequest asks for
  InferBody body;
  body.parts.resize(2);  // of the JSON; the outputs' bytes follow
  std::string json = ",\"outputs\":[";
  for (OutputTensor& output : outputs) {
    if (&output != &outputs.front()) json.push_back(',');
    json.append("{\"name\":");
    AppendText(output.name, &json);
    absl::StrAppend(&json, ",\"datatype\":\"", std::string(DataTypeName(output.type)),
                    "\",\"shape\":[");
    for (const int64_t side : output.shape) {
      absl::StrAppend(&json, json.back() == '[' ? "" : ",", side);
    }
    json.push_back(']');
    // As Triton tells it: its C++ client wants a binary_data_size wherever there are parameters.
    if (output.shared_memory) {
      json.push_back('}');
      continue;
    }
    if (forms.IsBinary(output.name)) {
      absl::StrAppend(&json, ",\"parameters\":{\"binary_data_size\":", output.bytes(), "}}");
      body.parts.push_back(std::move(output.data));
      for (std::string& part : output.further) body.parts.push_back(std::move(part));
      body.binary = true;
      continue;
    }
    json.append(",\"data\":[");
    bool written = AppendElements(output.type, output.data, &json);
    for (const std::string& part : output.further) {
      written = written && AppendElements(output.type, part, &json);
    }
    if (!written) {
      return InvalidArgument("request.output_form",
                             absl::StrCat("output ", InQuotes(output.name),
                                          " has values that JSON has not: ask for binary data"));
    }
    json.append("]}");
  }
  json.append("]}");
  response.receipt.stages.EndStage(Stage::kEncode, clock.Now());
  std::string head = "{\"model_name\":";
  AppendText(response.model_name, &head);
  head.append(",\"model_version\":");
  AppendText(response.model_version, &head);
  if (!response.id.empty()) {
    head.append(",\"id\":");
    AppendText(response.id, &head);
  }
  absl::StrAppend(&head, ",\"parameters\":", ReceiptParameters(response));
  body.json_bytes = head.size() + json.size();
  body.parts[0] = std::move(head);
  body.parts[1] = std::move(json);
  size_t bytes = 0;
  for (const std::string& part : body.parts) bytes += part.size();
  FOVEA_RETURN_IF_ERROR(CheckAnswerBytes(bytes, max_bytes));
  return body;
}

}  // namespace fovea
