#include "tests/kernels/ptx/opcode.h"

#include <algorithm>

#include "tests/kernels/ptx/failure.h"

namespace fovea::ptx {

Opcode::Opcode(std::string_view text) : text_(text) {
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part(text.substr(begin, end - begin));
    if (begin == 0) {
      name_ = part;
    } else if (part.starts_with(":") && !modifiers_.empty()) {
      modifiers_.back() += part;
    } else {
      modifiers_.push_back(part);
    }
    begin = end + 1;
  }
}

bool Opcode::Take(std::string_view modifier) {
  const auto found = std::ranges::find(modifiers_, modifier);
  if (found == modifiers_.end()) return false;
  modifiers_.erase(found);
  return true;
}

std::optional<int> Opcode::TakeOneOf(std::span<const std::string_view> modifiers) {
  int index = 0;
  for (std::string_view modifier : modifiers) {
    if (Take(modifier)) return index;
    ++index;
  }
  return std::nullopt;
}

Type Opcode::TakeType() {
  for (const std::string& modifier : modifiers_) {
    if (const std::optional<Type> type = TypeNamed(modifier)) {
      Take(modifier);
      return *type;
    }
  }
  throw SyntaxError("no type in the instruction \"" + text_ + "\"");
}

char LetterOf(Type type) {
  switch (BytesOf(type)) {
    case 0:
      return 'p';
    case 2:
      return '2';
    case 4:
      return '4';
    case 8:
      return '8';
    default:
      throw SyntaxError("no register holds 8 bits");
  }
}

Decoded Decode(std::string_view text) {
  for (const auto family : {DecodeInteger, DecodeFloat, DecodeComparison, DecodeConversion,
                            DecodeMove, DecodeMemory, DecodeControl, DecodeCollective}) {
    Opcode opcode(text);
    const std::optional<Decoded> decoded = family(opcode);
    if (decoded && opcode.IsTaken()) return *decoded;
  }
  throw SyntaxError("unknown instruction \"" + std::string(text) + "\"");
}

}  // namespace fovea::ptx
