#include "kernels/choice/questions.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <regex>
#include <vector>

namespace fovea::kernels {
namespace {

// What a captured number of a question may be.
enum class Numbers {
  kPowers,      // 2^n
  kHalfPowers,  // 2^n or 1.5 * 2^n
};

struct Family {
  std::regex names;
  Numbers numbers = Numbers::kPowers;
};

const std::vector<Family>& Families() {
  static const std::vector<Family> families = {
      {std::regex("linear_(?:fp32|bf16|int8)(?:_c768)?")},
      {std::regex("dense_attention_(?:fp32|bf16)_n(?:64|256|1024)")},
      {std::regex("window_attention_(?:fp32|bf16)_n(?:64|256)")},
      {std::regex("knn_attention_(?:fp32|bf16)_n(?:256|1024)")},
      {std::regex("conv_static_key_attention_(?:fp32|bf16)_n256")},
      {std::regex("key_only_layer_(?:fp32|bf16|fp16)_n([0-9]+)_c([0-9]+)(?:_unprepared)?"),
       Numbers::kHalfPowers},
      {std::regex("dense_attention_(?:bf16|fp16)_d([0-9]+)_n([0-9]+)_h([0-9]+)")},
  };
  return families;
}

bool IsOneOf(Numbers numbers, std::string_view digits) {
  uint64_t number = 0;
  const auto read = std::from_chars(digits.begin(), digits.end(), number);
  if (read.ec != std::errc()) return false;
  const bool half = numbers == Numbers::kHalfPowers && number % 3 == 0;
  return std::has_single_bit(half ? number / 3 : number);
}

}  // namespace

bool IsQuestion(std::string_view name) {
  for (const Family& family : Families()) {
    std::match_results<std::string_view::const_iterator> match;
    if (!std::regex_match(name.begin(), name.end(), match, family.names)) continue;
    return std::all_of(match.begin() + 1, match.end(), [&](const auto& digits) {
      return IsOneOf(family.numbers, {digits.first, digits.second});
    });
  }
  return false;
}

std::string TypeName(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat:
      return "fp32";
    case c10::kBFloat16:
      return "bf16";
    case c10::kHalf:
      return "fp16";
    case c10::kDouble:
      return "fp64";
    case c10::kChar:
      return "int8";
    default:
      return c10::toString(type);
  }
}

at::Tensor TypicalNumbers(at::IntArrayRef sizes, const at::TensorOptions& options) {
  const at::Tensor places = at::arange(c10::multiply_integers(sizes), options.dtype(at::kFloat));
  return places.mul(78.233).sin().view(sizes).to(options);
}

}  // namespace fovea::kernels
