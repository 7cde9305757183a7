#include "tests/kernels/ptx/block.h"

#include <algorithm>
#include <bit>
#include <string>

#include "tests/kernels/ptx/failure.h"

namespace fovea::ptx {

Block::Block(LaunchState& launch)
    : launch_(launch),
      shared_(launch.program.static_shared_bytes + launch.grid.shared_bytes, launch.grid.threads),
      local_(launch.program.local_bytes, launch.grid.threads),
      copies_(launch.grid.threads) {
  const unsigned threads = launch.grid.threads;
  for (unsigned first = 0; first < threads; first += kLanes) {
    const unsigned lanes = std::min(kLanes, threads - first);
    warps_.push_back(std::make_unique<Warp>(*this, first / kLanes, kAllLanes >> (kLanes - lanes)));
  }
}

void Block::Reset(int64_t index) {
  index_ = index;
  shared_.Clear();
  local_.Clear();
  for (Groups& groups : copies_) groups.assign(1, {});
  for (const auto& warp : warps_) warp->Reset();
}

void Block::Run(int64_t index) {
  Reset(index);
  for (;;) {
    for (const auto& warp : warps_) warp->Run();
    if (AllEnded()) return;
    CheckAllAtBarrier();
    PassBarrier();
  }
}

bool Block::AllEnded() const {
  return std::ranges::all_of(warps_,
                             [](const auto& warp) { return warp->ended() == warp->existing(); });
}

// A barrier takes all threads, at one instruction. A GPU lets threads that have ended stay away
// (PTX ISA, "barrier"); no kernel of ours relies on that, so here it is a fault.
void Block::CheckAllAtBarrier() const {
  const auto waiting =
      std::ranges::find_if(warps_, [](const auto& warp) { return warp->at_barrier() != 0; });
  const unsigned first = static_cast<unsigned>(std::countr_zero((*waiting)->at_barrier()));
  const uint32_t pc = (*waiting)->PcOf(first);
  for (const auto& warp : warps_) {
    ForLanes(warp->existing(), [&](unsigned lane) {
      const bool ended = warp->ended() >> lane & 1;
      if (!ended && warp->PcOf(lane) == pc) return;
      const std::string where =
          ended ? "has ended" : "waits at " + program().code[warp->PcOf(lane)].text;
      (*waiting)->Fail(first, "thread " + std::to_string(warp->ThreadOf(lane)) +
                                  " does not come to the barrier: it " + where);
    });
  }
}

void Block::PassBarrier() {
  const Warp& first = *warps_.front();
  const Instruction& barrier = program().code[first.PcOf(0)];
  LaneMask any = 0;
  if (!barrier.to.empty()) {  // bar.red.or
    for (const auto& warp : warps_) {
      any |= warp->PredicateOf(barrier.from.back()) & warp->existing();
    }
  }
  shared_.races().PassBlockBarrier();
  for (const auto& warp : warps_) warp->PassBarrier(any != 0);
}

uint64_t Block::ValueOf(Special what, unsigned thread) const {
  switch (what) {
    case Special::kThread:
      return thread;
    case Special::kThreads:
      return launch_.grid.threads;
    case Special::kBlock:
      return static_cast<uint64_t>(index_);
    case Special::kBlocks:
      return static_cast<uint64_t>(launch_.grid.blocks);
    case Special::kLane:
      return thread % kLanes;
    case Special::kOne:
      return 1;
    case Special::kZero:
      return 0;
  }
  return 0;
}

bool Block::Count(uint32_t pc, LaneMask lanes) {
  ++launch_.issued[pc];
  launch_.executed[pc] += std::popcount(lanes);
  return --launch_.instructions_left >= 0;
}

void Block::StartCopy(unsigned thread, uint64_t to, uint64_t from, int bytes) {
  launch_.global.At(thread, from, bytes);
  shared_.StartCopy(thread, to, bytes);
  copies_[thread].back().push_back({to, from, bytes});
}

void Block::CommitCopies(unsigned thread) { copies_[thread].emplace_back(); }

void Block::AwaitCopies(unsigned thread, int pending_groups) {
  Groups& groups = copies_[thread];
  while (groups.size() > static_cast<size_t>(pending_groups) + 1) {
    for (const Copy& copy : groups.front()) {
      const std::byte* from = launch_.global.At(thread, copy.from, copy.bytes);
      shared_.EndCopy(thread, copy.to, {from, static_cast<size_t>(copy.bytes)});
    }
    groups.pop_front();
  }
}

}  // namespace fovea::ptx
