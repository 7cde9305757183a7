#include "tests/kernels/ptx/type.h"

#include <algorithm>
#include <iterator>

namespace fovea::ptx {
namespace {

struct Row {
  std::string_view name;
  Type type;
  int bytes;
};

constexpr Row kRows[] = {
    {"pred", Type::kPred, 0}, {"b8", Type::kB8, 1},       {"u8", Type::kU8, 1},
    {"s8", Type::kS8, 1},     {"b16", Type::kB16, 2},     {"u16", Type::kU16, 2},
    {"s16", Type::kS16, 2},   {"f16", Type::kF16, 2},     {"bf16", Type::kBf16, 2},
    {"b32", Type::kB32, 4},   {"u32", Type::kU32, 4},     {"s32", Type::kS32, 4},
    {"f32", Type::kF32, 4},   {"f16x2", Type::kF16x2, 4}, {"bf16x2", Type::kBf16x2, 4},
    {"b64", Type::kB64, 8},   {"u64", Type::kU64, 8},     {"s64", Type::kS64, 8},
    {"f64", Type::kF64, 8}};

}  // namespace

std::optional<Type> TypeNamed(std::string_view name) {
  const Row* row = std::ranges::find(kRows, name, &Row::name);
  if (row == std::end(kRows)) return std::nullopt;
  return row->type;
}

int BytesOf(Type type) { return std::ranges::find(kRows, type, &Row::type)->bytes; }

bool IsSigned(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

bool IsInteger(Type type) {
  switch (type) {
    case Type::kPred:
    case Type::kF16:
    case Type::kBf16:
    case Type::kF32:
    case Type::kF16x2:
    case Type::kBf16x2:
    case Type::kF64:
      return false;
    default:
      return true;
  }
}

}  // namespace fovea::ptx
