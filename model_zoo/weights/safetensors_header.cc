// The header: JSON through SAX callbacks, so that a duplicate is seen (a parsed object has
// forgotten it), and so that memory stays in proportion to the header whatever it nests.
#include <c10/util/Exception.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "model_zoo/quoted.h"
#include "model_zoo/weights/safetensors.h"

namespace fovea::models {
namespace {

using nlohmann::json;

constexpr size_t kMaxRank = 16;

[[noreturn]] void Invalid(const std::string& why) {
  C10_THROW_ERROR(ValueError, "the weights are not valid safetensors: " + why);
}

struct TypeSize {
  std::string_view name;
  uint64_t bytes;
  StoredType type = StoredType::kOther;
};
constexpr TypeSize kTypes[] = {
    {"F32", 4, StoredType::kF32},
    {"F16", 2, StoredType::kF16},
    {"BF16", 2, StoredType::kBf16},
    {"F64", 8},
    {"C64", 8},
    {"I64", 8},
    {"U64", 8},
    {"I32", 4},
    {"U32", 4},
    {"I16", 2},
    {"U16", 2},
    {"I8", 1},
    {"U8", 1},
    {"BOOL", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"F8_E8M0", 1},
};

const TypeSize* FindType(std::string_view name) {
  auto found = std::ranges::find(kTypes, name, &TypeSize::name);
  return found == std::end(kTypes) ? nullptr : found;
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int extra = lead < 0x80                   ? 0
                      : lead >= 0xC2 && lead < 0xE0 ? 1
                      : (lead & 0xF0) == 0xE0       ? 2
                      : lead >= 0xF0 && lead < 0xF5 ? 3
                                                    : -1;
    if (extra < 0 || text.size() - i <= static_cast<size_t>(extra)) {
      return false;
    }
    uint32_t code = extra == 0 ? lead : lead & (0x3F >> extra);
    for (int k = 1; k <= extra; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0) != 0x80) {
        return false;
      }
      code = code << 6 | (next & 0x3F);
    }
    const bool overlong = (extra == 2 && code < 0x800) || (extra == 3 && code < 0x10000);
    if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      return false;
    }
    i += 1 + extra;
  }
  return true;
}

// Builds the list while the header is read. The shape of a header is
//   {"__metadata__": {string: string}, name: {"dtype": string, "shape": [int], "data_offsets":
//   [int, int]}, ...}
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  std::vector<StoredTensor> Take() { return std::move(tensors_); }

  bool start_object(std::size_t /*size*/) override {
    if (place_ == Place::kStart) {
      place_ = Place::kRoot;
    } else if (place_ == Place::kRoot && key_ == "__metadata__") {
      place_ = Place::kMetadata;
      names_seen_metadata_.clear();
    } else if (place_ == Place::kRoot) {
      place_ = Place::kTensor;
      tensors_.push_back({.name = key_});
      fields_seen_ = 0;
      offsets_.clear();
    } else {
      Unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      FinishTensor();
    }
    place_ = place_ == Place::kRoot ? Place::kEnd : Place::kRoot;
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kRoot && !names_seen_.insert(name).second) {
      Invalid("the header names " + Quoted(name) + " twice");
    }
    if (place_ == Place::kMetadata && !names_seen_metadata_.insert(name).second) {
      Invalid("the metadata name " + Quoted(name) + " twice");
    }
    if (place_ == Place::kTensor) {
      const unsigned field = name == "dtype"          ? kDtype
                             : name == "shape"        ? kShape
                             : name == "data_offsets" ? kOffsets
                                                      : 0;
      if (field == 0) {
        Invalid(Tensor() + " has an unknown field " + Quoted(name));
      }
      if (fields_seen_ & field) {
        Invalid(Tensor() + " has the field " + Quoted(name) + " twice");
      }
      fields_seen_ |= field;
      field_ = field;
    }
    key_ = name;
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (place_ != Place::kTensor || field_ == kDtype) {
      Unexpected("an array");
    }
    place_ = Place::kArray;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    field_ = kDtype;  // a second array would need a key first
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kTensor && key_ == "dtype") {
      const TypeSize* type = FindType(value);
      if (type == nullptr) {
        Invalid(Tensor() + " has an unknown dtype " + Quoted(value));
      }
      tensors_.back().type = type->type;
      tensors_.back().type_name = value;
    } else if (place_ != Place::kMetadata) {
      Unexpected("a string");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kArray) {
      Unexpected("a number");
    }
    if (key_ == "data_offsets") {
      if (offsets_.size() == 2) {
        Invalid(Tensor() + " has more than two data offsets");
      }
      offsets_.push_back(value);
      return true;
    }
    std::vector<int64_t>& shape = tensors_.back().shape;
    if (shape.size() == kMaxRank || value > static_cast<uint64_t>(INT64_MAX)) {
      Invalid(Tensor() + " has an impossible shape");
    }
    shape.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a number that is not a whole one in range");
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    Invalid("the header is not JSON from byte " + std::to_string(position));
  }

 private:
  enum class Place { kStart, kRoot, kMetadata, kTensor, kArray, kEnd };
  // Bits of fields_seen_.
  static constexpr unsigned kDtype = 1, kShape = 2, kOffsets = 4;

  std::string Tensor() const { return "tensor " + Quoted(tensors_.back().name); }

  [[noreturn]] bool Unexpected(const std::string& what) {
    Invalid("the header holds " + what + " where the format has none" +
            (place_ == Place::kTensor || place_ == Place::kArray ? " (" + Tensor() + ")"
                                                                 : std::string()));
  }

  void FinishTensor() {
    StoredTensor& tensor = tensors_.back();
    if (fields_seen_ != (kDtype | kShape | kOffsets) || offsets_.size() != 2) {
      Invalid(Tensor() + " lacks dtype, shape or data_offsets");
    }
    tensor.begin = offsets_[0];
    tensor.end = offsets_[1];
    if (tensor.begin > tensor.end) {
      Invalid(Tensor() + " ends before it begins");
    }
    uint64_t bytes = FindType(tensor.type_name)->bytes;
    for (int64_t extent : tensor.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
        Invalid(Tensor() + " has a shape whose size overflows");
      }
    }
    if (bytes != tensor.end - tensor.begin) {
      Invalid(Tensor() + " needs " + std::to_string(bytes) +
              " bytes by its shape and dtype, its range has " +
              std::to_string(tensor.end - tensor.begin));
    }
  }

  Place place_ = Place::kStart;
  std::string key_;
  unsigned field_ = 0;
  unsigned fields_seen_ = 0;
  std::vector<uint64_t> offsets_;
  std::unordered_set<std::string> names_seen_;
  std::unordered_set<std::string> names_seen_metadata_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace

std::vector<StoredTensor> ParseSafetensorsHeader(std::string_view header, uint64_t data_bytes) {
  if (header.empty() || header.front() != '{') {
    Invalid("the header does not begin with '{'");
  }
  if (!IsUtf8(header)) {
    Invalid("the header is not UTF-8");
  }
  if (const size_t nul = header.find('\0'); nul != header.npos) {
    // The JSON reader takes it for the end of its input.
    Invalid("the header is not JSON from byte " + std::to_string(nul));
  }
  HeaderReader reader;
  json::sax_parse(header, &reader);
  std::vector<StoredTensor> tensors = reader.Take();
  std::ranges::stable_sort(tensors, {},
                           [](const StoredTensor& t) { return std::pair(t.begin, t.end); });
  uint64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.end > data_bytes) {
      Invalid("tensor " + Quoted(tensor.name) + " ends at byte " + std::to_string(tensor.end) +
              " of " + std::to_string(data_bytes));
    }
    if (tensor.begin < end) {
      Invalid("tensor " + Quoted(tensor.name) + " overlaps the one before it");
    }
    if (tensor.begin > end) {
      Invalid("there is a hole of " + std::to_string(tensor.begin - end) + " bytes before tensor " +
              Quoted(tensor.name));
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    Invalid(std::to_string(data_bytes - end) + " bytes at the end belong to no tensor");
  }
  return tensors;
}

}  // namespace fovea::models
