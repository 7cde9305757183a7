// Decodes the opcode of an instruction: which function executes it, on which operands.
//
// Each family of instructions is a file with a Decode function, which returns nothing for opcodes
// of other families. It takes the modifiers that it knows from the opcode; the parser refuses an
// opcode of which one is left, so that no instruction is executed as a neighbour that it resembles.
#pragma once
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/kernels/ptx/program.h"

namespace fovea::ptx {

class Opcode {
 public:
  explicit Opcode(std::string_view text);  // "ld.shared.v4.f32"

  const std::string& name() const { return name_; }  // "ld"
  const std::string& text() const { return text_; }
  bool Is(std::string_view name) const { return name_ == name; }
  // True if all modifiers have been taken.
  bool IsTaken() const { return modifiers_.empty(); }

  // Removes the modifier; false if there is none like it.
  bool Take(std::string_view modifier);
  // Removes the first of the given modifiers that is there, and returns its index.
  std::optional<int> TakeOneOf(std::span<const std::string_view> modifiers);
  std::optional<int> TakeOneOf(std::initializer_list<std::string_view> modifiers) {
    return TakeOneOf(std::span(modifiers.begin(), modifiers.size()));
  }
  // Removes the first modifier that is a type. Throws SyntaxError where there is none.
  Type TakeType();

 private:
  std::string text_, name_;
  std::vector<std::string> modifiers_;
};

// The operands of an instruction in the order of its text, a letter each:
//   p        a predicate
//   2, 4, 8  a register of so many bytes, or a constant
//   w        a register of any width
//   a        an address, [register + constant]
//   i        an immediate, which goes to Instruction::count
//   *        after a letter: one or more of these in braces, or a single one without
//   ?        after a letter: may be missing
// Destinations come before '='.
struct Decoded {
  Execute execute = nullptr;
  std::string signature;
  Flow flow = Flow::kNext;
  Type type = Type::kB32;
  int mask_operand = -1;
  // Executes a move where an operand is in braces, whose signature is then "w*=w*"; else null.
  Execute packed = nullptr;
};

std::optional<Decoded> DecodeInteger(Opcode& opcode);
std::optional<Decoded> DecodeFloat(Opcode& opcode);
std::optional<Decoded> DecodeComparison(Opcode& opcode);
std::optional<Decoded> DecodeConversion(Opcode& opcode);
std::optional<Decoded> DecodeMove(Opcode& opcode);
std::optional<Decoded> DecodeMemory(Opcode& opcode);
std::optional<Decoded> DecodeControl(Opcode& opcode);
std::optional<Decoded> DecodeCollective(Opcode& opcode);

// By the families in turn. Throws SyntaxError with the opcode's text where none knows it.
Decoded Decode(std::string_view text);

// The letter of a register that holds a value of the type.
char LetterOf(Type type);

}  // namespace fovea::ptx
