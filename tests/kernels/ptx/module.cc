#include "tests/kernels/ptx/module.h"

#include <cxxabi.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "tests/kernels/ptx/statements.h"

namespace fovea::ptx {
namespace {

std::string Demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? demangled.get() : name;
}

// ".extern .shared .align 32 .b8 name[];": the block's dynamic shared memory.
std::vector<std::string> DynamicSharedIn(std::string_view text) {
  constexpr std::string_view kDirective = ".extern .shared";
  std::vector<std::string> names;
  for (size_t at = text.find(kDirective); at != std::string_view::npos;
       at = text.find(kDirective, at + 1)) {
    const std::vector<std::string> words = WordsIn(text.substr(at, text.find(';', at) - at));
    names.push_back(words.back());
  }
  return names;
}

// Where the brace that closes the one before `begin` is.
size_t EndOfBody(std::string_view text, size_t begin) {
  int depth = 1;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  throw std::runtime_error("a kernel without an end");
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::istringstream file(ReadFile(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

void Module::Add(std::string_view with_comments) {
  const std::string without = WithoutComments(with_comments);
  const std::string_view text = without;
  const std::vector<std::string> dynamic_shared = DynamicSharedIn(text);
  constexpr std::string_view kEntry = ".entry ";
  for (size_t at = text.find(kEntry); at != std::string_view::npos; at = text.find(kEntry, at)) {
    const size_t open = text.find('(', at);
    const size_t close = text.find(')', open);
    const size_t body = text.find('{', close) + 1;
    const size_t end = EndOfBody(text, body);
    const std::string name(Trimmed(text.substr(at + kEntry.size(), open - at - kEntry.size())));
    Kernel& kernel = kernels_[name];
    kernel.text = {Demangled(name), std::string(text.substr(open + 1, close - open - 1)),
                   std::string(text.substr(close + 1, body - close - 2)),
                   std::string(text.substr(body, end - body))};
    kernel.dynamic_shared = dynamic_shared;
    at = end;
  }
}

const Program& Module::Find(std::string_view part) {
  Kernel* found = nullptr;
  for (auto& [name, kernel] : kernels_) {
    if (kernel.text.name.find(part) == std::string::npos) continue;
    if (found != nullptr) throw std::runtime_error("several kernels match " + std::string(part));
    found = &kernel;
  }
  if (found == nullptr) throw std::runtime_error("no kernel matches " + std::string(part));
  if (found->program == nullptr) {
    found->program = std::make_unique<Program>(ParseKernel(found->text, found->dynamic_shared));
    found->text.body.clear();
  }
  return *found->program;
}

std::vector<std::string> Module::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : kernels_) names.push_back(kernel.text.name);
  return names;
}

}  // namespace fovea::ptx
