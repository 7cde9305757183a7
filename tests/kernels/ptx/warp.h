// A warp: 32 lanes with a program counter each, and their registers.
//
// Lanes at the same instruction execute it together, those of the lowest program counter first, so
// that lanes which have diverged meet again where their paths join. Lanes that come to a
// collective instruction (a shuffle, vote, matrix instruction or barrier of the warp) wait there
// until all lanes that it names have come; that they never can is a failure, which names them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/ptx/program.h"
#include "tests/kernels/ptx/type.h"

namespace fovea::ptx {

class Block;

class Warp {
 public:
  // `block` outlives the warp.
  Warp(Block& block, unsigned index, LaneMask existing);

  // Begins a new thread block.
  void Reset();

  // Runs until every lane has ended or waits for a barrier of the block. Throws Failure.
  void Run();

  LaneMask existing() const { return existing_; }
  LaneMask ended() const { return ended_; }
  LaneMask at_barrier() const { return at_barrier_; }
  uint32_t PcOf(unsigned lane) const { return pc_[lane]; }
  // Lets the lanes that wait for a barrier go on after it; `reduced`: the result of bar.red.
  void PassBarrier(bool reduced);

  // For instructions.
  Block& block() { return block_; }
  unsigned index() const { return index_; }
  unsigned ThreadOf(unsigned lane) const { return index_ * kLanes + lane; }
  // The 32 values of a register whose width is that of T.
  template <class T>
  T* Lanes(const Operand& operand) {
    return reinterpret_cast<T*>(registers_.get() + operand.offset);
  }
  LaneMask PredicateOf(const Operand& operand) {
    return *Lanes<LaneMask>(operand) ^ (operand.negated ? kAllLanes : 0);
  }
  void SetPredicate(const Operand& operand, LaneMask lanes, LaneMask values) {
    LaneMask& mask = *Lanes<LaneMask>(operand);
    mask = (mask & ~lanes) | (values & lanes);
  }
  // A register of any width.
  uint64_t Bits(const Operand& operand, unsigned lane);
  void SetBits(const Operand& operand, unsigned lane, uint64_t bits);
  uint64_t AddressOf(const Instruction& instruction, unsigned lane, int operand = 0) {
    return Bits(instruction.from[operand], lane) + instruction.offsets[operand];
  }

  // Of one lane, at the instruction at which it is.
  [[noreturn]] void Fail(unsigned lane, const std::string& what) const;

 private:
  // Lanes that execute together, at `pc`.
  struct Group {
    LaneMask lanes;
    uint32_t pc;
    uint32_t limit;  // the lowest program counter of the other lanes that can go on
  };
  Group NextGroup() const;
  void RunGroup(Group group);
  void Step(const Instruction& instruction, Group& group);
  void Branch(const Instruction& instruction, LaneMask taken, Group& group);
  void Meet(const Instruction& instruction, LaneMask arrived, Group& group);
  void ExecuteFor(const Instruction& instruction, LaneMask lanes);
  LaneMask LanesAt(uint32_t pc) const;
  void SetPc(LaneMask lanes, uint32_t pc);
  void CheckDefined(const Operand& operand, LaneMask lanes) const;
  [[noreturn]] void FailWithMissingLanes() const;
  void InitialiseConstants();

  struct Free {
    void operator()(std::byte* memory) const;
  };

  Block& block_;
  const Program& program_;
  const unsigned index_;
  const LaneMask existing_;
  std::array<uint32_t, kLanes> pc_{};
  LaneMask ended_ = 0;
  LaneMask at_barrier_ = 0;
  LaneMask at_collective_ = 0;
  std::unique_ptr<std::byte, Free> registers_;
  std::vector<LaneMask> defined_;  // of each register, the lanes that have been written
};

}  // namespace fovea::ptx
