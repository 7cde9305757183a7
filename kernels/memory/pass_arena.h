// The tensors of a model's passes in memory that is there already.
//
// A pass over an input of one shape allocates and frees the same sizes in the same order each time.
// The first is recorded; from it follows a plan (pass_plan.h), by which those after it are answered
// from a range of one slab (pass_memory.h), without malloc, page faults or small pages. What lived
// on when the pass ended, its results, is allocated as ever.
//   Nothing depends on passes being alike: the n-th allocation lies where the plan has it if it is
// no larger than recorded and nothing that is still used lies there; otherwise it is allocated as
// ever. Such a pass has deviated, and the next one is recorded in its plan's place; after each
// recording the number of deviating passes before the next recording doubles, so that a model whose
// passes never repeat (detectors suppress boxes in their own number) is hardly ever recorded.
//   Seen are the allocations of the thread of a pass by LibTorch's allocator: not those of its
// OpenMP helpers, nor oneDNN's scratch memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/memory/cpu_allocator.h"
#include "kernels/memory/pass_memory.h"
#include "kernels/memory/pass_plan.h"

namespace fovea::kernels {

struct PlannedPass;
struct PassRecording;

// The plans of one instance of a model, by the shape of a pass's input and the number of threads.
// Used by one thread at a time; what its passes allocated may be freed on any, and after it is
// gone.
class PassArena {
 public:
  // `memory`: shared with the model's other instances.
  explicit PassArena(std::shared_ptr<PassMemory> memory = std::make_shared<PassMemory>());
  ~PassArena();
  PassArena(const PassArena&) = delete;
  PassArena& operator=(const PassArena&) = delete;

  // While it lives, the pass over `input` is run, on its thread. One within another, of another
  // arena, takes its place until it ends.
  class Scope final : public AllocationSource {
   public:
    // Throws c10::Error where a pass of the arena is running.
    Scope(PassArena& arena, const at::Tensor& input);
    ~Scope() override;
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // The pass has ended, whole; its results are still there, and what is allocated from now on is
    // no longer the pass's. Of one that was stopped, or threw, nothing is learnt.
    void Complete();

    // After Complete: the gaps between the blocks of its plan, where they are held most. With what
    // a ledger saw at most, what the pass holds.
    int64_t gap_bytes() const;

    c10::DataPtr Allocate(size_t bytes) override;

   private:
    void End();
    c10::DataPtr Record(size_t bytes);

    PassArena& arena_;
    PlannedPass* planned_ = nullptr;
    std::shared_ptr<PassRecording> recording_;  // null: by the plan
    PassMemory::Range range_;
    size_t recorded_ = 0;
    size_t next_ = 0;  // allocation, in the plan's order
    bool deviated_ = false;
    bool ended_ = false;
    AllocationSource* outer_ = nullptr;
  };

  struct Passes {
    int64_t recorded = 0;
    int64_t as_planned = 0;
    int64_t deviated = 0;
  };
  // That were complete.
  const Passes& passes() const { return passes_; }
  const PassMemory& memory() const { return *memory_; }
  size_t plans() const { return plans_.size(); }

  // Blocks of all plans, 16 bytes each, a plan itself counting as kBlocksOfPlan more: above, those
  // that were used least recently go. A pass of more than kMostOfPass is planned up to there.
  static constexpr size_t kMostBlocks = size_t{1} << 18;
  static constexpr size_t kBlocksOfPlan = 16;
  static constexpr size_t kMostOfPass = size_t{1} << 13;

 private:
  // Threads, element type, sizes.
  using Key = std::vector<int64_t>;
  static Key KeyOf(const at::Tensor& input);
  PlannedPass& Find(const at::Tensor& input);
  void MakeRoom();

  const std::shared_ptr<PassMemory> memory_;
  std::map<Key, std::unique_ptr<PlannedPass>> plans_;
  size_t blocks_ = 0;
  int64_t uses_ = 0;
  bool running_ = false;
  Passes passes_;
};

// Frees what a pass was given, by its address alone; false, and nothing is done, where none was.
bool TryFreePassBlock(void* address);

}  // namespace fovea::kernels
