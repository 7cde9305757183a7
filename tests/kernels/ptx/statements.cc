#include "tests/kernels/ptx/statements.h"

#include <algorithm>
#include <cctype>

namespace fovea::ptx {
namespace {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// One statement after the other, character by character.
class Splitter {
 public:
  std::vector<Statement> Split(std::string_view body) {
    for (size_t i = 0; i < body.size(); ++i)
      Take(body[i], i + 1 < body.size() ? body[i + 1] : '\n');
    return std::move(statements_);
  }

 private:
  void Take(char c, char next) {
    const bool at_begin = Trimmed(pending_).empty();
    if (c == ';') {
      Finish();
    } else if (c == '{' && at_begin) {
      pending_.clear();
      statements_.push_back({Statement::Kind::kOpenScope, "{"});
    } else if (c == '}' && braces_ == 0) {
      Finish();
      statements_.push_back({Statement::Kind::kCloseScope, "}"});
    } else if (c == ':' && IsSpace(next) && Trimmed(pending_).find(' ') == std::string_view::npos) {
      statements_.push_back({Statement::Kind::kLabel, std::string(Trimmed(pending_))});
      pending_.clear();
    } else {
      if (c == '{') ++braces_;
      if (c == '}') --braces_;
      pending_ += IsSpace(c) ? ' ' : c;
    }
  }

  void Finish() {
    const std::string_view text = Trimmed(pending_);
    if (!text.empty()) {
      const auto kind =
          text[0] == '.' ? Statement::Kind::kDirective : Statement::Kind::kInstruction;
      statements_.push_back({kind, std::string(text)});
    }
    pending_.clear();
  }

  std::vector<Statement> statements_;
  std::string pending_;
  int braces_ = 0;  // that the pending statement has open
};

}  // namespace

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

std::string WithoutComments(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else {
      result += text[i++];
    }
  }
  return result;
}

std::vector<Statement> StatementsIn(std::string_view body) { return Splitter().Split(body); }

std::vector<std::string> SplitOperands(std::string_view text) {
  std::vector<std::string> operands;
  int brackets = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '{' || c == '[') ++brackets;
    if (c == '}' || c == ']') --brackets;
    if (c != ',' || (brackets != 0 && i < text.size())) continue;
    const std::string_view operand = Trimmed(text.substr(begin, i - begin));
    if (!operand.empty()) operands.emplace_back(operand);
    begin = i + 1;
  }
  return operands;
}

std::vector<std::string> WordsIn(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (IsSpace(c) || c == ',' || c == '[' || c == ']') {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace fovea::ptx
