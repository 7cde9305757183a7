// Operands of PTX instructions: registers, which it lays out in the warp's register file,
// constants, special registers and addresses.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/kernels/ptx/opcode.h"
#include "tests/kernels/ptx/program.h"

namespace fovea::ptx {

// All throw SyntaxError with the text that they do not understand.
class OperandParser {
 public:
  // Adds registers, constants and special registers to `program`, which outlives it.
  explicit OperandParser(Program& program) : program_(program), scopes_(1) {}

  void OpenScope() { scopes_.emplace_back(); }
  void CloseScope();
  // ".reg .b32 %r<980>" and ".reg .b16 low, high".
  void Declare(std::string_view directive);
  // An address that instructions may name.
  void AddSymbol(const std::string& name, uint64_t address) { symbols_[name] = address; }

  // "%p1" or "!%p1".
  Operand Predicate(std::string_view text);
  // Fills in the instruction's operands as the decoded signature has them.
  void Take(const Decoded& decoded, const std::vector<std::string>& texts,
            Instruction& instruction);

 private:
  struct Scope {
    std::map<std::string, Operand, std::less<>> registers;
    std::map<std::string, std::pair<int, int64_t>, std::less<>> ranges;  // prefix: bytes, count
  };

  void TakeLetter(char letter, std::string_view text, bool is_source, Instruction& instruction);
  void TakeAddress(std::string_view text, Instruction& instruction);
  Operand Parse(std::string_view text, char letter, bool is_source);
  Operand Register(std::string_view name);
  Operand SpecialNamed(std::string_view name);
  Operand ConstantOf(uint64_t value, int bytes);
  Operand NewRegister(int bytes, const std::string& name);

  Program& program_;
  std::vector<Scope> scopes_;
  std::map<std::string, uint64_t, std::less<>> symbols_;
  std::map<std::pair<uint64_t, int>, Operand> constants_;
  std::map<std::string, Operand, std::less<>> specials_;
};

}  // namespace fovea::ptx
