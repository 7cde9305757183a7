#include "server/transport/http/read_infer_request.h"

#include <simdjson.h>

#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/transport/http/contiguous.h"
#include "server/transport/messages/infer_rules.h"
#include "server/transport/messages/shared_tensors.h"

namespace fovea {
namespace {

namespace ondemand = simdjson::ondemand;

// Bytes held for a byte of JSON: its copy (1), simdjson's index of values (4) and string buffer
// (5/3), one unescaped string (1), and that string decoded from base64 (3/4), rounded up.
constexpr int64_t kWorkspacePerByte = 9;

// "data:image/jpeg;charset=...;base64,"
constexpr size_t kMostDataUrlHead = 256;
constexpr size_t kLeastBase64 = 32;

absl::Status BadJson() {
  return InvalidArgument("request.json", "the body is no JSON of an inference request");
}
absl::Status BadField(std::string_view name) {
  return InvalidArgument("request.json",
                         absl::StrCat(InQuotes(name), " is not there, not of its type, or twice"));
}

// simdjson's unescaping, which needs no document. Thread-safe. Throws std::bad_alloc.
const ondemand::parser& Unescaper() {
  static const ondemand::parser unescaper = [] {
    ondemand::parser made;
    if (made.allocate(/*new_capacity=*/64, /*new_max_depth=*/1) != simdjson::SUCCESS) {
      throw std::bad_alloc();
    }
    return made;
  }();
  return unescaper;
}

// The unescaped string, in memory of its own: simdjson 3.0.1 writes to its string buffer even if it
// could not allocate one. nullopt if the string is malformed. Throws std::bad_alloc.
std::optional<std::string> Unescaped(ondemand::raw_json_string raw) {
  const char* end = raw.raw();  // the first pass over the document has found the closing quote
  while (*end != '"') end += *end == '\\' ? 2 : 1;
  std::string text(end - raw.raw() + simdjson::SIMDJSON_PADDING, '\0');
  auto* to = reinterpret_cast<uint8_t*>(text.data());
  std::string_view unescaped;
  if (Unescaper().unescape(raw, to).get(unescaped) != simdjson::SUCCESS) return std::nullopt;
  text.resize(unescaped.size());
  return text;
}

// nullopt if `value` is not a string.
std::optional<std::string> ReadString(ondemand::value& value) {
  ondemand::raw_json_string raw;
  if (value.get_raw_json_string().get(raw) != simdjson::SUCCESS) return std::nullopt;
  return Unescaped(raw);
}

// Calls `visit(name, value)`, which gives a status, for each member of an object. Skips members
// that are null: some clients write null for everything that they leave out.
template <typename Visit>
absl::Status ForEachMember(ondemand::object& object, Visit visit) {
  for (auto member : object) {
    ondemand::field field;
    if (std::move(member).get(field) != simdjson::SUCCESS) return BadJson();
    const std::optional<std::string> name = Unescaped(field.key());
    if (!name) return BadJson();
    bool is_null;
    if (field.value().is_null().get(is_null) == simdjson::SUCCESS && is_null) continue;
    FOVEA_RETURN_IF_ERROR(visit(*name, field.value()));
  }
  return absl::OkStatus();
}

// The same for each element of an array.
template <typename Visit>
absl::Status ForEachElement(ondemand::value& value, std::string_view name, Visit visit) {
  ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) return BadField(name);
  for (auto element : array) {
    ondemand::value one;
    if (std::move(element).get(one) != simdjson::SUCCESS) return BadJson();
    FOVEA_RETURN_IF_ERROR(visit(one));
  }
  return absl::OkStatus();
}

absl::Status ReadText(ondemand::value& value, std::string_view name,
                      std::optional<std::string>* to) {
  if (*to) return BadField(name);
  *to = ReadString(value);
  if (!*to || (*to)->size() > limits::kMaxJsonNameBytes) return BadField(name);
  return absl::OkStatus();
}

struct Parameters {
  std::optional<uint64_t> priority, timeout, classification, binary_data_size;
  std::optional<bool> binary_data, binary_data_output;
  std::optional<SharedMemorySpan> shared_memory;
};

// Parameters of the request, or of a tensor, which may lie in shared memory.
absl::Status ReadParameters(ondemand::value& value, Parameters* to, bool of_tensor = true) {
  ondemand::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) return BadField("parameters");
  size_t count = 0;
  return ForEachMember(object, [&](const std::string& name, ondemand::value one) -> absl::Status {
    FOVEA_RETURN_IF_ERROR(CheckParameterCount(++count));
    if (of_tensor && IsSharedMemoryParameter(name)) {
      const std::optional<std::string> text = ReadString(one);
      std::optional<int64_t> number;
      int64_t number_value;
      if (one.get_int64().get(number_value) == simdjson::SUCCESS) number = number_value;
      SetSharedMemory(name, text, number, &to->shared_memory);
      return absl::OkStatus();
    }
    FOVEA_RETURN_IF_ERROR(CheckParameterName(name));
    const auto read = [&](auto* parameter, auto result, const absl::Status& wrong) -> absl::Status {
      if (*parameter) return BadField(name);
      typename std::decay_t<decltype(*parameter)>::value_type read_value;
      if (std::move(result).get(read_value) != simdjson::SUCCESS) return wrong;
      *parameter = read_value;
      return absl::OkStatus();
    };
    if (name == "priority") return read(&to->priority, one.get_uint64(), NoCount(name));
    if (name == "timeout") return read(&to->timeout, one.get_uint64(), NoCount(name));
    if (name == "classification") return read(&to->classification, one.get_uint64(), NoCount(name));
    if (name == "binary_data_size") {
      return read(&to->binary_data_size, one.get_uint64(), NoCount(name));
    }
    if (name == "binary_data") return read(&to->binary_data, one.get_bool(), BadField(name));
    if (name == "binary_data_output") {
      return read(&to->binary_data_output, one.get_bool(), BadField(name));
    }
    return absl::OkStatus();
  });
}

absl::Status ReadOutput(ondemand::value& value, WantedTensors* wanted, OutputForms* forms) {
  ondemand::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) return BadField("outputs");
  std::optional<std::string> name;
  Parameters parameters;
  FOVEA_RETURN_IF_ERROR(ForEachMember(object, [&](const std::string& member, ondemand::value one) {
    if (member == "name") return ReadText(one, member, &name);
    if (member == "parameters") return ReadParameters(one, &parameters);
    return absl::OkStatus();
  }));
  if (!name) return BadField("name");
  if (parameters.binary_data) forms->named.emplace_back(*name, *parameters.binary_data);
  return AddOutput(*name, parameters.classification.value_or(0),
                   std::move(parameters.shared_memory), wanted);
}

// Of an element as a tensor has it; a text besides what it is long.
size_t LeastBytes(DataType type) {
  return type == DataType::kBytes ? sizeof(uint32_t) : ElementSize(type);
}

// Decodes a picture that is given as base64, alone or as a data URL, since JSON holds no bytes. No
// picture's own bytes look like that. False if `text` is neither; ordinary words are too short.
bool UnpackPicture(std::string_view text, std::string* file) {
  if (text.size() < kLeastBase64) return false;
  if (text.starts_with("data:")) {
    const size_t comma = text.substr(0, kMostDataUrlHead).find(',');
    if (comma == text.npos || !text.substr(0, comma).ends_with(";base64")) return false;
    text.remove_prefix(comma + 1);
  }
  const absl::string_view encoded(text.data(), text.size());
  return absl::Base64Unescape(encoded, file) || absl::WebSafeBase64Unescape(encoded, file);
}

// Elements in JSON, flat or nested, as a tensor's bytes.
class Elements {
 public:
  Elements(std::string_view input, DataType type, int64_t count)
      : input_(input), type_(type), missing_(count) {
    bytes_.reserve(count * LeastBytes(type));
  }

  absl::Status Add(ondemand::value& value, int depth) {
    ondemand::json_type kind;
    if (value.type().get(kind) != simdjson::SUCCESS) return BadJson();
    if (kind == ondemand::json_type::array) {
      if (depth == limits::kMaxTensorRank) return Wrong("is nested deeper than a shape can be");
      return ForEachElement(value, "data",
                            [&](ondemand::value& one) { return Add(one, depth + 1); });
    }
    if (--missing_ < 0) return WrongCount();
    return AddOne(value);
  }

  absl::StatusOr<ScatteredBytes> Finish() && {
    if (missing_ != 0) return WrongCount();
    auto owner = std::make_shared<const std::string>(std::move(bytes_));
    const ScatteredBytes::Piece piece = std::as_bytes(std::span(*owner));
    return ScatteredBytes(piece, std::move(owner));
  }

 private:
  absl::Status Wrong(std::string_view what) const {
    return InputError("request.contents_type", input_, what);
  }
  absl::Status WrongCount() const {
    return InputError("request.contents_count", input_,
                      "has another number of elements than its shape says");
  }

  template <typename Number>
  absl::Status Append(Number number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    return absl::OkStatus();
  }

  template <typename Integer>
  absl::Status AppendInteger(ondemand::value& value) {
    using Wide = std::conditional_t<std::is_signed_v<Integer>, int64_t, uint64_t>;
    Wide wide;
    simdjson::error_code error;
    if constexpr (std::is_signed_v<Integer>) {
      error = value.get_int64().get(wide);
    } else {
      error = value.get_uint64().get(wide);
    }
    if (error != simdjson::SUCCESS || wide < std::numeric_limits<Integer>::min() ||
        wide > std::numeric_limits<Integer>::max()) {
      return Wrong(absl::StrCat("holds something that is no ", std::string(DataTypeName(type_))));
    }
    return Append(static_cast<Integer>(wide));
  }

  absl::Status AppendBool(ondemand::value& value) {
    bool truth;
    if (value.get_bool().get(truth) == simdjson::SUCCESS) return Append(truth);
    uint64_t number;  // as Triton's clients write them
    if (value.get_uint64().get(number) != simdjson::SUCCESS || number > 1) {
      return Wrong("holds something that is no BOOL");
    }
    return Append(number == 1);
  }

  absl::Status AddOne(ondemand::value& value) {
    switch (type_) {
      case DataType::kBool:
        return AppendBool(value);
      case DataType::kUint8:
        return AppendInteger<uint8_t>(value);
      case DataType::kUint16:
        return AppendInteger<uint16_t>(value);
      case DataType::kUint32:
        return AppendInteger<uint32_t>(value);
      case DataType::kUint64:
        return AppendInteger<uint64_t>(value);
      case DataType::kInt8:
        return AppendInteger<int8_t>(value);
      case DataType::kInt16:
        return AppendInteger<int16_t>(value);
      case DataType::kInt32:
        return AppendInteger<int32_t>(value);
      case DataType::kInt64:
        return AppendInteger<int64_t>(value);
      case DataType::kFp32:
      case DataType::kFp64: {
        double number;
        if (value.get_double().get(number) != simdjson::SUCCESS) {
          return Wrong("holds something that is no number");
        }
        return type_ == DataType::kFp32 ? Append(static_cast<float>(number)) : Append(number);
      }
      case DataType::kBytes: {
        std::optional<std::string> text = ReadString(value);
        if (!text) return Wrong("holds something that is no text");
        if (std::string unpacked; UnpackPicture(*text, &unpacked)) text = std::move(unpacked);
        FOVEA_RETURN_IF_ERROR(Append(static_cast<uint32_t>(text->size())));
        bytes_.append(*text);
        return absl::OkStatus();
      }
      case DataType::kFp16:
      case DataType::kBf16:
        break;
    }
    return Wrong(
        absl::StrCat(std::string(DataTypeName(type_)), " tensors come as binary data only"));
  }

  const std::string_view input_;
  const DataType type_;
  int64_t missing_;
  std::string bytes_;
};

// What stands behind the JSON.
class BinaryTensors {
 public:
  BinaryTensors(const ReceivedBytes& body, size_t json_bytes)
      : bytes_({body.pieces.begin(), body.pieces.end()}, body.owner), at_(json_bytes) {}

  // The next `size` bytes; nothing where there are fewer.
  std::optional<ScatteredBytes> Take(uint64_t size) {
    if (size > bytes_.size() - at_) return std::nullopt;
    at_ += size;
    return bytes_.Slice(at_ - size, size);
  }
  bool AtEnd() const { return at_ == bytes_.size(); }

 private:
  const ScatteredBytes bytes_;
  size_t at_;
};

absl::Status ReadInput(ondemand::value& value, size_t json_bytes, BinaryTensors& binary,
                       InferenceRequest* request, NamedTensors* inputs) {
  ondemand::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) return BadField("inputs");
  std::optional<std::string> name, datatype;
  std::optional<std::vector<int64_t>> shape;
  Parameters parameters;
  int data = 0;
  FOVEA_RETURN_IF_ERROR(
      ForEachMember(object, [&](const std::string& member, ondemand::value one) -> absl::Status {
        if (member == "name") return ReadText(one, member, &name);
        if (member == "datatype") return ReadText(one, member, &datatype);
        if (member == "parameters") return ReadParameters(one, &parameters);
        if (member == "data" && ++data > 1) return BadField(member);
        if (member != "shape") return absl::OkStatus();
        if (shape) return BadField(member);
        shape.emplace();
        return ForEachElement(one, member, [&](ondemand::value& side) -> absl::Status {
          int64_t size;
          if (shape->size() > limits::kMaxTensorRank ||
              side.get_int64().get(size) != simdjson::SUCCESS) {
            return BadField(member);
          }
          shape->push_back(size);
          return absl::OkStatus();
        });
      }));
  if (!name || !datatype || !shape) return BadField("inputs");
  FOVEA_ASSIGN_OR_RETURN(const DataType type, ReadInputType(*name, *datatype));
  FOVEA_ASSIGN_OR_RETURN(const int64_t elements, CheckInputShape(*name, *shape, type));
  InputTensor tensor{.name = *name, .type = type, .shape = *std::move(shape)};
  if (parameters.shared_memory) {
    if (data > 0 || parameters.binary_data_size) {
      return InputError("request.two_contents", *name,
                        "has data although it lies in shared memory");
    }
    FOVEA_RETURN_IF_ERROR(ReadSharedInput(*parameters.shared_memory, elements, request, &tensor));
    return AddInput(std::move(tensor), inputs);
  }
  if (parameters.binary_data_size) {
    if (data > 0) {
      return InputError("request.two_contents", *name, "has data although they are binary");
    }
    std::optional<ScatteredBytes> bytes = binary.Take(*parameters.binary_data_size);
    if (!bytes) {
      return InputError("request.input_size", *name, "is longer than what follows the JSON");
    }
    tensor.data = *std::move(bytes);
    FOVEA_RETURN_IF_ERROR(CheckInputBytes(tensor, elements));
    return AddInput(std::move(tensor), inputs);
  }
  if (elements > limits::kMaxConvertedElements) {
    return ResourceExhausted("request.contents_too_large",
                             absl::StrCat("more than ", limits::kMaxConvertedElements,
                                          " numbers in JSON: send them as binary data"));
  }
  // An element takes a byte of JSON at least: a shape is believed only as far as there is any.
  ondemand::value values;
  if (static_cast<uint64_t>(elements) > json_bytes || object.reset().error() ||
      object.find_field_unordered("data").get(values) != simdjson::SUCCESS) {
    return InputError("request.contents_count", *name, "has fewer data than its shape says");
  }
  const int64_t texts = type == DataType::kBytes ? static_cast<int64_t>(json_bytes) : 0;
  FOVEA_RETURN_IF_ERROR(
      request->TakeMemory(elements * static_cast<int64_t>(LeastBytes(type)) + texts));
  Elements read(*name, type, elements);
  FOVEA_RETURN_IF_ERROR(read.Add(values, 0));
  FOVEA_ASSIGN_OR_RETURN(tensor.data, std::move(read).Finish());
  return AddInput(std::move(tensor), inputs);
}

// Everything but the inputs.
absl::Status ReadHead(ondemand::object& root, InferenceRequest* request, OutputForms* forms) {
  std::optional<std::string> id;
  Parameters parameters;
  WantedTensors wanted;
  int inputs = 0, outputs = 0, parameter_lists = 0;
  FOVEA_RETURN_IF_ERROR(
      ForEachMember(root, [&](const std::string& member, ondemand::value one) -> absl::Status {
        if (member == "id") {
          FOVEA_RETURN_IF_ERROR(ReadText(one, member, &id));
          FOVEA_RETURN_IF_ERROR(CheckRequestId(*id));
          request->id = *id;
        } else if (member == "parameters") {
          if (++parameter_lists > 1) return BadField(member);
          return ReadParameters(one, &parameters, /*of_tensor=*/false);
        } else if (member == "outputs") {
          if (++outputs > 1) return BadField(member);
          size_t count = 0;
          return ForEachElement(one, member, [&](ondemand::value& output) -> absl::Status {
            FOVEA_RETURN_IF_ERROR(CheckOutputCount(++count));
            return ReadOutput(output, &wanted, forms);
          });
        } else if (member == "inputs" && ++inputs > 1) {
          return BadField(member);
        }
        return absl::OkStatus();
      }));
  if (inputs == 0) return BadField("inputs");
  request->priority = parameters.priority.value_or(0);
  request->timeout_us = parameters.timeout.value_or(0);
  request->options = std::move(wanted);
  forms->binary = parameters.binary_data_output.value_or(false);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadInferRequest(const ReceivedBytes& body, size_t json_bytes, CheckModel check_model,
                              MemoryBudget& budget, InferenceRequest* request, OutputForms* forms) {
  if (static_cast<int64_t>(json_bytes) > limits::kMaxJsonBytes) {
    return ResourceExhausted("request.json_too_large",
                             absl::StrCat("more than ", limits::kMaxJsonBytes,
                                          " bytes of JSON: send tensors as binary data"));
  }
  RequestMemory workspace(budget);
  FOVEA_RETURN_IF_ERROR(workspace.Take(
      static_cast<int64_t>(json_bytes + simdjson::SIMDJSON_PADDING) * kWorkspacePerByte));
  const ContiguousText text = Gather(body, json_bytes, simdjson::SIMDJSON_PADDING);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object root;
  const simdjson::error_code error =
      parser.iterate(text.text.data(), json_bytes, json_bytes + simdjson::SIMDJSON_PADDING)
          .get(document);
  if (error == simdjson::MEMALLOC) return OutOfMemory();
  if (error != simdjson::SUCCESS || document.get_object().get(root) != simdjson::SUCCESS) {
    return BadJson();
  }
  FOVEA_RETURN_IF_ERROR(ReadHead(root, request, forms));
  const char* rest;
  if (document.current_location().get(rest) != simdjson::OUT_OF_BOUNDS) return BadJson();
  FOVEA_RETURN_IF_ERROR(check_model(*request));
  document.rewind();
  ondemand::value inputs;
  if (document.find_field_unordered("inputs").get(inputs) != simdjson::SUCCESS) return BadJson();
  BinaryTensors binary(body, json_bytes);
  NamedTensors tensors;
  size_t count = 0;
  FOVEA_RETURN_IF_ERROR(
      ForEachElement(inputs, "inputs", [&](ondemand::value& input) -> absl::Status {
        FOVEA_RETURN_IF_ERROR(CheckInputCount(++count));
        return ReadInput(input, json_bytes, binary, request, &tensors);
      }));
  if (!binary.AtEnd()) {
    return InvalidArgument("request.binary_rest", "more follows the JSON than its inputs have");
  }
  request->input = std::move(tensors);
  return absl::OkStatus();
}

}  // namespace fovea
