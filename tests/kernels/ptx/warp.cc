#include "tests/kernels/ptx/warp.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/kernels/ptx/block.h"
#include "tests/kernels/ptx/failure.h"

namespace fovea::ptx {
namespace {

constexpr std::align_val_t kAlignment{64};

unsigned FirstOf(LaneMask lanes) { return static_cast<unsigned>(std::countr_zero(lanes)); }

}  // namespace

void Warp::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

Warp::Warp(Block& block, unsigned index, LaneMask existing)
    : block_(block),
      program_(block.program()),
      index_(index),
      existing_(existing),
      registers_(static_cast<std::byte*>(::operator new(program_.register_bytes, kAlignment))),
      defined_(program_.registers) {
  std::memset(registers_.get(), 0, program_.register_bytes);
  InitialiseConstants();
}

void Warp::InitialiseConstants() {
  for (const Constant& constant : program_.constants) {
    if (constant.at.bytes == 0) {
      *Lanes<LaneMask>(constant.at) = constant.value != 0 ? kAllLanes : 0;
      continue;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) SetBits(constant.at, lane, constant.value);
  }
}

void Warp::Reset() {
  pc_.fill(0);
  ended_ = at_barrier_ = at_collective_ = 0;
  std::ranges::fill(defined_, 0);
  for (const Constant& constant : program_.constants) defined_[constant.at.index] = kAllLanes;
  for (const SpecialRegister& special : program_.specials) {
    defined_[special.at.index] = kAllLanes;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      SetBits(special.at, lane, block_.ValueOf(special.what, ThreadOf(lane)));
    }
  }
}

void Warp::Run() {
  for (;;) {
    const Group group = NextGroup();
    if (group.lanes != 0) {
      RunGroup(group);
    } else if (at_collective_ != 0) {
      FailWithMissingLanes();
    } else {
      return;
    }
  }
}

Warp::Group Warp::NextGroup() const {
  Group group{0, ~uint32_t{0}, ~uint32_t{0}};
  ForLanes(existing_ & ~(ended_ | at_barrier_ | at_collective_), [&](unsigned lane) {
    if (pc_[lane] < group.pc) {
      group = {LaneMask{1} << lane, pc_[lane], group.pc};
    } else if (pc_[lane] == group.pc) {
      group.lanes |= LaneMask{1} << lane;
    } else {
      group.limit = std::min(group.limit, pc_[lane]);
    }
  });
  return group;
}

// Until the group ends, splits, waits, or reaches lanes that it has to be joined with.
void Warp::RunGroup(Group group) {
  while (group.lanes != 0 && group.pc < group.limit) {
    if (group.pc >= program_.code.size()) {
      throw Failure("control leaves the end of " + program_.name);
    }
    Step(program_.code[group.pc], group);
  }
  SetPc(group.lanes, group.pc);
}

void Warp::Step(const Instruction& instruction, Group& group) {
  if (!block_.Count(group.pc, group.lanes)) {
    SetPc(group.lanes, group.pc);
    Fail(FirstOf(group.lanes), "the launch does not end within its limit of instructions");
  }
  LaneMask active = group.lanes;
  if (instruction.guard) {
    if (active & ~defined_[instruction.guard->index]) {
      SetPc(group.lanes, group.pc);
      CheckDefined(*instruction.guard, active);
    }
    active &= PredicateOf(*instruction.guard);
  }
  if (active == 0) {
    ++group.pc;
    return;
  }
  switch (instruction.flow) {
    case Flow::kNext:
      ExecuteFor(instruction, active);
      ++group.pc;
      return;
    case Flow::kBranch:
      Branch(instruction, active, group);
      return;
    case Flow::kReturn:
      ended_ |= active;
      group.lanes &= ~active;
      ++group.pc;
      return;
    case Flow::kBarrier:
      SetPc(active, group.pc);
      for (const Operand& operand : instruction.from) CheckDefined(operand, active);
      at_barrier_ |= active;
      group.lanes &= ~active;
      ++group.pc;
      return;
    case Flow::kCollective:
      Meet(instruction, active, group);
      return;
  }
}

void Warp::Branch(const Instruction& instruction, LaneMask taken, Group& group) {
  if (taken == group.lanes) {
    group.pc = instruction.target;
    return;
  }
  SetPc(taken, instruction.target);
  SetPc(group.lanes & ~taken, group.pc + 1);
  group.lanes = 0;  // those that go on are chosen anew
}

// Executes a collective for those arrived lanes whose partners are all there. The others wait.
void Warp::Meet(const Instruction& instruction, LaneMask arrived, Group& group) {
  SetPc(arrived, group.pc);
  const LaneMask present = arrived | (at_collective_ & LanesAt(group.pc));
  at_collective_ |= arrived;
  LaneMask freed = group.lanes & ~arrived;  // whose guard is false
  SetPc(freed, group.pc + 1);
  for (LaneMask left = present; left != 0;) {
    const unsigned lane = FirstOf(left);
    LaneMask named = existing_;
    if (instruction.mask_operand >= 0) {
      const Operand& mask = instruction.from[instruction.mask_operand];
      CheckDefined(mask, LaneMask{1} << lane);
      named = static_cast<LaneMask>(Bits(mask, lane));
    } else if (existing_ != kAllLanes) {
      Fail(lane, "the warp has fewer than 32 lanes");
    }
    if ((named >> lane & 1) == 0) Fail(lane, "the lane is not among those that it names itself");
    left &= ~named;
    if ((named & ~present) != 0) continue;
    ExecuteFor(instruction, named);
    at_collective_ &= ~named;
    SetPc(named, group.pc + 1);
    freed |= named;
  }
  if (freed == group.lanes) {  // all of the group go on together
    ++group.pc;
  } else {
    group.lanes = 0;
  }
}

void Warp::ExecuteFor(const Instruction& instruction, LaneMask lanes) {
  for (const Operand& operand : instruction.from) {
    if (lanes & ~defined_[operand.index]) {
      SetPc(lanes, static_cast<uint32_t>(&instruction - program_.code.data()));
      CheckDefined(operand, lanes);
    }
  }
  try {
    instruction.execute(*this, instruction, lanes);
  } catch (const Violation& violation) {
    SetPc(lanes, static_cast<uint32_t>(&instruction - program_.code.data()));
    Fail(violation.thread % kLanes, violation.what());
  }
  for (const Operand& operand : instruction.to) defined_[operand.index] |= lanes;
}

void Warp::PassBarrier(bool reduced) {
  if (at_barrier_ == 0) return;
  for (const Operand& operand : program_.code[pc_[FirstOf(at_barrier_)]].to) {
    SetPredicate(operand, at_barrier_, reduced ? kAllLanes : 0);
    defined_[operand.index] |= at_barrier_;
  }
  ForLanes(at_barrier_, [&](unsigned lane) { ++pc_[lane]; });
  at_barrier_ = 0;
}

uint64_t Warp::Bits(const Operand& operand, unsigned lane) {
  switch (operand.bytes) {
    case 2:
      return Lanes<uint16_t>(operand)[lane];
    case 4:
      return Lanes<uint32_t>(operand)[lane];
    case 8:
      return Lanes<uint64_t>(operand)[lane];
    default:
      return PredicateOf(operand) >> lane & 1;
  }
}

void Warp::SetBits(const Operand& operand, unsigned lane, uint64_t bits) {
  switch (operand.bytes) {
    case 2:
      Lanes<uint16_t>(operand)[lane] = static_cast<uint16_t>(bits);
      return;
    case 4:
      Lanes<uint32_t>(operand)[lane] = static_cast<uint32_t>(bits);
      return;
    case 8:
      Lanes<uint64_t>(operand)[lane] = bits;
      return;
    default:
      SetPredicate(operand, LaneMask{1} << lane, bits != 0 ? kAllLanes : 0);
  }
}

LaneMask Warp::LanesAt(uint32_t pc) const {
  LaneMask lanes = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) lanes |= LaneMask{pc_[lane] == pc} << lane;
  return lanes;
}

void Warp::SetPc(LaneMask lanes, uint32_t pc) {
  ForLanes(lanes, [&](unsigned lane) { pc_[lane] = pc; });
}

void Warp::CheckDefined(const Operand& operand, LaneMask lanes) const {
  const LaneMask undefined = lanes & ~defined_[operand.index];
  if (undefined == 0) return;
  Fail(FirstOf(undefined), "reads register " + program_.register_names.at(operand.index) +
                               ", which is not initialised");
}

void Warp::Fail(unsigned lane, const std::string& what) const {
  const std::string instruction =
      pc_[lane] < program_.code.size() ? program_.code[pc_[lane]].text : "(its end)";
  throw Failure(what + "\n  instruction: " + instruction +
                "\n  thread: " + std::to_string(ThreadOf(lane)) + " of block " +
                std::to_string(block_.index()) + "\n  kernel: " + program_.name);
}

void Warp::FailWithMissingLanes() const {
  const unsigned waiting = FirstOf(at_collective_);
  std::string missing;
  ForLanes(existing_ & ~LanesAt(pc_[waiting]) & ~at_collective_, [&](unsigned lane) {
    missing += "\n  thread " + std::to_string(ThreadOf(lane)) +
               (ended_ >> lane & 1 ? " has ended" : " waits at " + program_.code[pc_[lane]].text);
  });
  ForLanes(at_collective_ & ~LanesAt(pc_[waiting]), [&](unsigned lane) {
    missing += "\n  thread " + std::to_string(ThreadOf(lane)) + " waits at " +
               program_.code[pc_[lane]].text;
  });
  ForLanes(ended_ & LanesAt(pc_[waiting]), [&](unsigned lane) {
    missing += "\n  thread " + std::to_string(ThreadOf(lane)) + " has ended";
  });
  Fail(waiting, "lanes that a collective instruction names never come to it:" + missing);
}

}  // namespace fovea::ptx
