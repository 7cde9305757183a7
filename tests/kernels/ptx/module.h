// The kernels of one or more PTX files.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/kernels/ptx/parser.h"
#include "tests/kernels/ptx/program.h"

namespace fovea::ptx {

std::string ReadFile(const std::string& path);  // throws std::runtime_error
// Those of a file that are not empty.
std::vector<std::string> LinesOf(const std::string& path);

// Not thread-safe.
class Module {
 public:
  Module() = default;
  explicit Module(std::string_view text) { Add(text); }

  // Adds a file's kernels. They are parsed when they are first asked for, so that kernels which
  // nobody runs cost nothing.
  void Add(std::string_view text);

  // The only kernel whose demangled name contains `part`. Throws std::runtime_error where there are
  // none or several, and SyntaxError where it holds an instruction that the interpreter does not
  // know.
  const Program& Find(std::string_view part);

  // Demangled names, in alphabetical order.
  std::vector<std::string> Names() const;

 private:
  struct Kernel {
    KernelText text;
    std::vector<std::string> dynamic_shared;
    std::unique_ptr<Program> program;  // null until it is parsed
  };
  std::map<std::string, Kernel> kernels_;  // by mangled name
};

}  // namespace fovea::ptx
