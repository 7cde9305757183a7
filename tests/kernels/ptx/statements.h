// Splits PTX text into statements.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fovea::ptx {

struct Statement {
  enum class Kind {
    kInstruction,
    kDirective,   // begins with '.'
    kLabel,       // without its ':'
    kOpenScope,   // '{'
    kCloseScope,  // '}'
  };
  Kind kind;
  std::string text;  // without ';' and surrounding spaces
};

// Of a kernel's body, without comments: what is between its braces.
std::vector<Statement> StatementsIn(std::string_view body);

// "a, {b, c}, [d+4]" to "a", "{b, c}", "[d+4]": splits at the commas that are in no brackets.
std::vector<std::string> SplitOperands(std::string_view text);

// Without spaces at both ends.
std::string_view Trimmed(std::string_view text);

// The words between spaces, and brackets; commas are dropped.
std::vector<std::string> WordsIn(std::string_view text);

// The text without comments.
std::string WithoutComments(std::string_view text);

}  // namespace fovea::ptx
