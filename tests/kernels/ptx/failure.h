// How the interpreter reports faults.
#pragma once
#include <stdexcept>
#include <string>

namespace fovea::ptx {

// What ends a launch. The message names the kernel, the instruction, the block and the thread.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A fault of one thread, thrown by memories and instructions; Warp adds the place and throws a
// Failure.
class Violation : public std::runtime_error {
 public:
  Violation(unsigned thread, const std::string& what) : std::runtime_error(what), thread(thread) {}
  unsigned thread;  // of the block
};

// Text that the parser cannot take: an unknown instruction, type, operand or directive.
class SyntaxError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace fovea::ptx
