#include "tests/kernels/ptx/operands.h"

#include <cctype>
#include <optional>
#include <utility>

#include "tests/kernels/ptx/failure.h"
#include "tests/kernels/ptx/statements.h"

namespace fovea::ptx {
namespace {

int BytesOfLetter(char letter) {
  switch (letter) {
    case 'p':
      return 0;
    case '2':
    case '4':
    case '8':
      return letter - '0';
    default:  // 'w'
      return 8;
  }
}

// "12", "-1", "0x1F", "0f3F800000" (fp32) or "0d3FF0000000000000" (fp64).
std::optional<uint64_t> NumberIn(std::string_view text) {
  const std::string digits(text);
  if (text.empty()) return std::nullopt;
  if (text[0] == '-') return static_cast<uint64_t>(std::stoll(digits, nullptr, 0));
  if (std::isdigit(static_cast<unsigned char>(text[0])) == 0) return std::nullopt;
  const bool is_float = text.size() > 2 && text[0] == '0' &&
                        (text[1] == 'f' || text[1] == 'd' || text[1] == 'F' || text[1] == 'D');
  return is_float ? std::stoull(digits.substr(2), nullptr, 16) : std::stoull(digits, nullptr, 0);
}

// The texts of a signature's operand: what is in braces, or the two sides of "%r1|%p1".
std::vector<std::string> PartsOf(std::string_view text) {
  if (text.starts_with('{')) return SplitOperands(text.substr(1, text.size() - 2));
  const size_t bar = text.find('|');
  if (bar == std::string_view::npos) return {std::string(text)};
  return {std::string(text.substr(0, bar)), std::string(text.substr(bar + 1))};
}

}  // namespace

void OperandParser::CloseScope() {
  if (scopes_.size() == 1) throw SyntaxError("a brace that closes nothing");
  scopes_.pop_back();
}

void OperandParser::Declare(std::string_view directive) {
  const std::vector<std::string> words = WordsIn(directive);
  const std::optional<Type> type =
      words.size() > 2 ? TypeNamed(std::string_view(words[1]).substr(1)) : std::nullopt;
  if (!type) throw SyntaxError("unknown directive \"" + std::string(directive) + "\"");
  for (size_t i = 2; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t angle = word.find('<');
    if (angle != std::string::npos) {
      scopes_.back().ranges[word.substr(0, angle)] = {BytesOf(*type),
                                                      std::stoll(word.substr(angle + 1))};
    } else {
      scopes_.back().registers[word] = NewRegister(BytesOf(*type), word);
    }
  }
}

Operand OperandParser::Predicate(std::string_view text) {
  Operand operand = Register(text.starts_with('!') ? text.substr(1) : text);
  if (operand.bytes != 0) throw SyntaxError("no predicate: " + std::string(text));
  operand.negated = text.starts_with('!');
  return operand;
}

void OperandParser::Take(const Decoded& decoded, const std::vector<std::string>& texts,
                         Instruction& instruction) {
  std::string signature = decoded.signature;
  bool has_braces = false;
  for (const std::string& text : texts) has_braces |= text.starts_with('{');
  if (has_braces && decoded.packed != nullptr) {
    instruction.execute = decoded.packed;
    signature = "w*=w*";
  }
  const auto fail = [&] { throw SyntaxError("wrong operands: \"" + instruction.text + "\""); };
  std::vector<std::string> left;  // parts of an operand that letters are still to take
  size_t next = 0;
  bool is_source = false;
  for (size_t i = 0; i < signature.size(); ++i) {
    const char letter = signature[i];
    if (letter == '=') {
      is_source = true;
      continue;
    }
    const char suffix = i + 1 < signature.size() ? signature[i + 1] : ' ';
    if (suffix == '*' || suffix == '?') ++i;
    if (left.empty()) {
      if (suffix == '?') continue;
      if (next == texts.size()) fail();
      left = PartsOf(texts[next++]);
    }
    const size_t takes = suffix == '*' ? left.size() : 1;
    for (size_t k = 0; k < takes; ++k) TakeLetter(letter, left[k], is_source, instruction);
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(takes));
    const bool optional_follows = i + 2 < signature.size() && signature[i + 2] == '?';
    if (!left.empty() && !optional_follows) fail();
  }
  if (next != texts.size()) {
    // bar.sync and barriers of a warp have one operand fewer than others that are like them.
    fail();
  }
}

void OperandParser::TakeLetter(char letter, std::string_view text, bool is_source,
                               Instruction& instruction) {
  if (letter == 'a') return TakeAddress(text, instruction);
  if (letter == 'i') {
    const std::optional<uint64_t> number = NumberIn(text);
    if (!number) throw SyntaxError("no constant: " + std::string(text));
    instruction.count = static_cast<int>(*number);
    return;
  }
  const Operand operand = Parse(text, letter, is_source);
  (is_source ? instruction.from : instruction.to).push_back(operand);
}

// "[%rd1+8]", "[%rd1]" or "[symbol+-4]".
void OperandParser::TakeAddress(std::string_view text, Instruction& instruction) {
  if (!text.starts_with('[') || !text.ends_with(']')) {
    throw SyntaxError("no address: " + std::string(text));
  }
  text = text.substr(1, text.size() - 2);
  int64_t offset = 0;
  const size_t plus = text.find('+');
  if (plus != std::string_view::npos) {
    offset = static_cast<int64_t>(NumberIn(Trimmed(text.substr(plus + 1))).value());
    text = Trimmed(text.substr(0, plus));
  }
  instruction.from.push_back(Parse(text, 'w', /*is_source=*/true));
  instruction.offsets.push_back(offset);
}

Operand OperandParser::Parse(std::string_view text, char letter, bool is_source) {
  const int bytes = BytesOfLetter(letter);
  if (!is_source && text == "_") return NewRegister(bytes, "_");
  if (text.starts_with('!')) return Predicate(text);
  if (text.starts_with('%') || symbols_.find(text) == symbols_.end()) {
    const std::optional<uint64_t> number = NumberIn(text);
    if (number && is_source) return ConstantOf(*number, bytes);
    const Operand operand = Register(text);
    const bool fits = letter == 'w' ? operand.bytes != 0 : operand.bytes == bytes;
    if (!fits) throw SyntaxError("a register of another width: " + std::string(text));
    return operand;
  }
  return ConstantOf(symbols_.find(text)->second, bytes);
}

Operand OperandParser::Register(std::string_view name) {
  for (size_t i = scopes_.size(); i-- > 0;) {
    const auto found = scopes_[i].registers.find(name);
    if (found != scopes_[i].registers.end()) return found->second;
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    const auto range = scopes_[i].ranges.find(name.substr(0, digits));
    if (range == scopes_[i].ranges.end() || digits == name.size()) continue;
    const auto [bytes, count] = range->second;
    if (std::stoll(std::string(name.substr(digits))) >= count) continue;
    const Operand operand = NewRegister(bytes, std::string(name));
    scopes_[i].registers[std::string(name)] = operand;
    return operand;
  }
  return SpecialNamed(name);
}

Operand OperandParser::SpecialNamed(std::string_view name) {
  static const std::map<std::string, Special, std::less<>> kinds = {
      {"%tid.x", Special::kThread},  {"%ntid.x", Special::kThreads},
      {"%ctaid.x", Special::kBlock}, {"%nctaid.x", Special::kBlocks},
      {"%laneid", Special::kLane},   {"%tid.y", Special::kZero},
      {"%tid.z", Special::kZero},    {"%ctaid.y", Special::kZero},
      {"%ctaid.z", Special::kZero},  {"%ntid.y", Special::kOne},
      {"%ntid.z", Special::kOne},    {"%nctaid.y", Special::kOne},
      {"%nctaid.z", Special::kOne}};
  const auto known = specials_.find(name);
  if (known != specials_.end()) return known->second;
  const auto kind = kinds.find(name);
  if (kind == kinds.end()) throw SyntaxError("unknown operand \"" + std::string(name) + "\"");
  const Operand operand = NewRegister(4, std::string(name));
  program_.specials.push_back({operand, kind->second});
  specials_.emplace(name, operand);
  return operand;
}

Operand OperandParser::ConstantOf(uint64_t value, int bytes) {
  const auto key = std::pair(value, bytes);
  const auto known = constants_.find(key);
  if (known != constants_.end()) return known->second;
  const Operand operand = NewRegister(bytes, std::to_string(value));
  program_.constants.push_back({operand, value});
  constants_.emplace(key, operand);
  return operand;
}

Operand OperandParser::NewRegister(int bytes, const std::string& name) {
  constexpr uint32_t kAlignment = 64;
  const uint32_t size = bytes == 0 ? sizeof(LaneMask) : static_cast<uint32_t>(bytes) * kLanes;
  Operand operand;
  operand.index = program_.registers++;
  operand.offset = program_.register_bytes;
  operand.bytes = bytes;
  program_.register_bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
  program_.register_names[operand.index] = name;
  return operand;
}

}  // namespace fovea::ptx
