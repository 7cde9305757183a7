#include "tests/kernels/ptx/parser.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "tests/kernels/ptx/failure.h"
#include "tests/kernels/ptx/opcode.h"
#include "tests/kernels/ptx/operands.h"
#include "tests/kernels/ptx/statements.h"

namespace fovea::ptx {
namespace {

int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// ".align 8 .b8 name[216]" or ".u64 name": of parameters and arrays.
struct Declaration {
  std::string name;
  int64_t alignment = 1;
  int64_t bytes = 0;
};

Declaration DeclarationIn(std::string_view text) {
  Declaration declaration;
  const std::vector<std::string> words = WordsIn(text);
  int64_t element = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == ".align") {
      declaration.alignment = std::stoll(words.at(++i));
    } else if (word[0] == '.') {
      if (const std::optional<Type> type = TypeNamed(word.substr(1))) element = BytesOf(*type);
    } else if (declaration.name.empty()) {
      declaration.name = word;
      declaration.bytes = element;
    } else {
      declaration.bytes = element * std::stoll(word);
    }
  }
  declaration.alignment = std::max(declaration.alignment, element);
  return declaration;
}

class KernelParser {
 public:
  explicit KernelParser(const KernelText& kernel) : kernel_(kernel), operands_(program_) {
    program_.name = kernel.name;
  }

  Program Parse(const std::vector<std::string>& dynamic_shared) {
    TakeParameters();
    TakeDirectivesOfKernel();
    const std::vector<Statement> statements = StatementsIn(kernel_.body);
    for (const Statement& statement : statements) {
      if (statement.text.starts_with(".shared")) {
        TakeArray(statement.text, program_.static_shared_bytes);
      }
    }
    constexpr int64_t kDynamicAlignment = 128;
    program_.static_shared_bytes = RoundUp(program_.static_shared_bytes, kDynamicAlignment);
    for (const std::string& name : dynamic_shared) {
      operands_.AddSymbol(name, kMemoryBase + program_.static_shared_bytes);
    }
    for (const Statement& statement : statements) Take(statement);
    ResolveLabels();
    return std::move(program_);
  }

 private:
  void TakeParameters() {
    for (const std::string& text : SplitOperands(kernel_.parameters)) {
      const Declaration parameter = DeclarationIn(text);
      const int64_t offset = RoundUp(program_.parameter_bytes, parameter.alignment);
      program_.parameters.push_back({parameter.name, parameter.bytes, offset});
      program_.parameter_bytes = offset + parameter.bytes;
      operands_.AddSymbol(parameter.name, kMemoryBase + offset);
    }
  }

  void TakeDirectivesOfKernel() {
    const std::vector<std::string> words = WordsIn(kernel_.directives);
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == ".maxntid") program_.max_threads = std::stoul(words[i + 1]);
    }
  }

  void TakeArray(std::string_view text, int64_t& used) {
    const Declaration array = DeclarationIn(text);
    used = RoundUp(used, array.alignment);
    operands_.AddSymbol(array.name, kMemoryBase + used);
    used += array.bytes;
  }

  void Take(const Statement& statement) {
    switch (statement.kind) {
      case Statement::Kind::kOpenScope:
        operands_.OpenScope();
        return;
      case Statement::Kind::kCloseScope:
        operands_.CloseScope();
        return;
      case Statement::Kind::kLabel:
        labels_[statement.text] = static_cast<uint32_t>(program_.code.size());
        return;
      case Statement::Kind::kDirective:
        TakeDirective(statement.text);
        return;
      case Statement::Kind::kInstruction:
        TakeInstruction(statement.text);
        return;
    }
  }

  void TakeDirective(const std::string& text) {
    if (text.starts_with(".reg")) {
      operands_.Declare(text);
    } else if (text.starts_with(".local")) {
      TakeArray(text, program_.local_bytes);
    } else if (text.starts_with(".pragma")) {
      constexpr std::string_view kUsedBytes = "\"used_bytes_mask ";
      const size_t found = text.find(kUsedBytes);
      if (found != std::string::npos) {
        used_bytes_ =
            static_cast<uint32_t>(std::stoul(text.substr(found + kUsedBytes.size()), nullptr, 0));
      }
    } else if (!text.starts_with(".shared") && !text.starts_with(".loc")) {
      throw SyntaxError("unknown directive \"" + text + "\"");
    }
  }

  void TakeInstruction(const std::string& text) {
    Instruction instruction;
    instruction.text = text;
    std::string_view rest = text;
    if (rest[0] == '@') {
      const size_t end = rest.find(' ');
      instruction.guard = operands_.Predicate(rest.substr(1, end - 1));
      rest = Trimmed(rest.substr(end));
    }
    const size_t end = std::min(rest.find(' '), rest.size());
    const std::string opcode(rest.substr(0, end));
    const auto [decoded, index] = DecodedOf(opcode);
    instruction.opcode = index;
    instruction.execute = decoded.execute;
    instruction.flow = decoded.flow;
    instruction.type = decoded.type;
    instruction.mask_operand = decoded.mask_operand;
    instruction.used_bytes = used_bytes_;
    used_bytes_ = ~uint32_t{0};
    const std::vector<std::string> operands = SplitOperands(rest.substr(end));
    if (decoded.flow == Flow::kBranch) {
      branches_.push_back({static_cast<uint32_t>(program_.code.size()), operands.at(0)});
    } else {
      operands_.Take(decoded, operands, instruction);
    }
    program_.code.push_back(std::move(instruction));
  }

  struct Known {
    Decoded decoded;
    uint32_t index;
  };
  const Known& DecodedOf(const std::string& opcode) {
    auto known = known_.find(opcode);
    if (known == known_.end()) {
      const auto index = static_cast<uint32_t>(program_.opcodes.size());
      known = known_.emplace(opcode, Known{Decode(opcode), index}).first;
      program_.opcodes.push_back(opcode);
    }
    return known->second;
  }

  void ResolveLabels() {
    for (const auto& [instruction, label] : branches_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) throw SyntaxError("no label " + label);
      program_.code[instruction].target = found->second;
    }
  }

  struct BranchTo {
    uint32_t instruction;
    std::string label;
  };

  const KernelText& kernel_;
  Program program_;
  OperandParser operands_;
  std::map<std::string, Known> known_;
  std::map<std::string, uint32_t> labels_;
  std::vector<BranchTo> branches_;
  uint32_t used_bytes_ = ~uint32_t{0};  // of the next instruction
};

}  // namespace

Program ParseKernel(const KernelText& kernel, const std::vector<std::string>& dynamic_shared) {
  try {
    return KernelParser(kernel).Parse(dynamic_shared);
  } catch (const SyntaxError& error) {
    throw SyntaxError(std::string(error.what()) + "\n  kernel: " + kernel.name);
  }
}

}  // namespace fovea::ptx
