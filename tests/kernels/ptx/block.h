// A thread block: its warps, memories and barriers, one block after the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/kernels/ptx/memories.h"
#include "tests/kernels/ptx/program.h"
#include "tests/kernels/ptx/warp.h"

namespace fovea::ptx {

struct Grid {
  int64_t blocks = 1;
  unsigned threads = 32;     // of a block
  int64_t shared_bytes = 0;  // dynamic ones, of a block
};

// What the blocks of a launch have in common.
struct LaunchState {
  LaunchState(const Program& program, const Grid& grid, std::vector<std::byte> arguments,
              GlobalMemory global, int64_t most_instructions)
      : program(program),
        grid(grid),
        parameters(std::move(arguments)),
        global(std::move(global)),
        instructions_left(most_instructions),
        issued(program.code.size()),
        executed(program.code.size()) {}

  const Program& program;
  const Grid grid;
  const ParameterMemory parameters;
  GlobalMemory global;
  int64_t instructions_left;      // of warps
  std::vector<int64_t> issued;    // to warps, by instruction
  std::vector<int64_t> executed;  // by threads, by instruction
  int64_t ldmatrix_extra_phases = 0;
};

class Block {
 public:
  explicit Block(LaunchState& launch);

  // Throws Failure.
  void Run(int64_t index);

  // For warps and instructions.
  const Program& program() const { return launch_.program; }
  LaunchState& launch() { return launch_; }
  int64_t index() const { return index_; }
  SharedMemory& shared() { return shared_; }
  LocalMemory& local() { return local_; }
  uint64_t ValueOf(Special what, unsigned thread) const;
  // Counts an instruction that a warp issues for so many lanes; false if that was one too many.
  bool Count(uint32_t pc, LaneMask lanes);

  // cp.async: copies of a thread land when it waits for them, and not before.
  void StartCopy(unsigned thread, uint64_t to, uint64_t from, int bytes);
  void CommitCopies(unsigned thread);
  void AwaitCopies(unsigned thread, int pending_groups);

 private:
  struct Copy {
    uint64_t to, from;
    int bytes;
  };
  using Groups = std::deque<std::vector<Copy>>;  // the last one is not committed

  void Reset(int64_t index);
  bool AllEnded() const;
  void PassBarrier();
  void CheckAllAtBarrier() const;

  LaunchState& launch_;
  int64_t index_ = 0;
  SharedMemory shared_;
  LocalMemory local_;
  std::vector<Groups> copies_;  // of each thread
  std::vector<std::unique_ptr<Warp>> warps_;
};

}  // namespace fovea::ptx
