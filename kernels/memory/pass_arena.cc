#include "kernels/memory/pass_arena.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fovea::kernels {

struct PlannedPass {
  PassPlan plan;
  bool record = true;           // the next pass
  int64_t deviations = 0;       // since it was recorded
  int64_t most_deviations = 1;  // until it is recorded again
  int64_t last_use = 0;
};

// Blocks are freed on any thread, at any time.
struct PassRecording {
  std::mutex mutex;
  bool open = true;
  int64_t now = 0;
  std::vector<BlockLife> blocks;
};

namespace {

// Blocks that were allocated while their pass was recorded, by their address. Thread-safe.
class RecordedBlocks {
 public:
  static RecordedBlocks& All() {
    static auto& all = *new RecordedBlocks;  // tensors may outlive everything
    return all;
  }

  // Of the recording's next block.
  c10::DataPtr Add(std::shared_ptr<PassRecording> recording, c10::DataPtr memory, size_t bytes) {
    void* const address = memory.get();
    size_t index = 0;
    {
      const std::lock_guard lock(recording->mutex);
      index = recording->blocks.size();
      recording->blocks.push_back({.bytes = bytes, .begin = recording->now++});
    }
    const std::lock_guard lock(mutex_);
    blocks_.emplace(address, Block{std::move(recording), index, std::move(memory)});
    return {address, address, &Free, c10::Device(c10::kCPU)};
  }

  bool Remove(void* address) {
    decltype(blocks_)::node_type found;
    {
      const std::lock_guard lock(mutex_);
      found = blocks_.extract(address);
    }
    if (found.empty()) return false;
    const Block& block = found.mapped();
    const std::lock_guard lock(block.recording->mutex);
    if (block.recording->open) {
      block.recording->blocks[block.index].end = block.recording->now++;
    }
    return true;
  }

 private:
  struct Block {
    std::shared_ptr<PassRecording> recording;
    size_t index = 0;
    c10::DataPtr memory;
  };
  static void Free(void* address) { All().Remove(address); }

  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
};

}  // namespace

bool TryFreePassBlock(void* address) {
  return TryFreeBlock(address) || RecordedBlocks::All().Remove(address);
}

PassArena::PassArena(std::shared_ptr<PassMemory> memory) : memory_(std::move(memory)) {
  InstallCpuAllocator();
}
PassArena::~PassArena() = default;

PassArena::Key PassArena::KeyOf(const at::Tensor& input) {
  Key key = {at::get_num_threads(), static_cast<int64_t>(input.scalar_type())};
  key.insert(key.end(), input.sizes().begin(), input.sizes().end());
  return key;
}

PlannedPass& PassArena::Find(const at::Tensor& input) {
  std::unique_ptr<PlannedPass>& planned = plans_[KeyOf(input)];
  if (planned == nullptr) {
    planned = std::make_unique<PlannedPass>();
    blocks_ += kBlocksOfPlan;
  }
  planned->last_use = ++uses_;
  return *planned;
}

void PassArena::MakeRoom() {
  while (blocks_ > kMostBlocks && plans_.size() > 1) {
    const auto oldest = std::ranges::min_element(
        plans_, {}, [](const auto& entry) { return entry.second->last_use; });
    blocks_ -= kBlocksOfPlan + oldest->second->plan.places.size();
    plans_.erase(oldest);
  }
}

PassArena::Scope::Scope(PassArena& arena, const at::Tensor& input) : arena_(arena) {
  TORCH_CHECK(!arena.running_, "two passes of one arena at a time");
  arena.MakeRoom();
  planned_ = &arena.Find(input);
  if (planned_->record) {
    arena.memory_->GiveBack();  // or the model would hold it beside what this pass allocates
    recording_ = std::make_shared<PassRecording>();
  } else {
    range_ = arena.memory_->Reserve(planned_->plan.bytes);
  }
  arena.running_ = true;
  outer_ = ExchangeThreadSource(this);
}

PassArena::Scope::~Scope() { End(); }

void PassArena::Scope::End() {
  if (std::exchange(ended_, true)) return;
  ExchangeThreadSource(outer_);
  arena_.running_ = false;
  range_ = {};
  if (recording_ == nullptr) return;
  const std::lock_guard lock(recording_->mutex);
  recording_->open = false;
}

void PassArena::Scope::Complete() {
  End();
  PlannedPass& planned = *planned_;
  if (recording_ == nullptr) {
    if (!deviated_) {
      ++arena_.passes_.as_planned;
      return;
    }
    ++arena_.passes_.deviated;
    if (++planned.deviations < planned.most_deviations) return;
    planned.record = true;
    planned.deviations = 0;
    planned.most_deviations *= 2;
    return;
  }
  ++arena_.passes_.recorded;
  arena_.blocks_ -= planned.plan.places.size();
  planned.plan = PlanPass(recording_->blocks);  // closed: only this thread looks at it
  planned.record = false;
  arena_.blocks_ += planned.plan.places.size();
  // What the recorded pass had of malloc is in the slab from now on. Of passes that find room in
  // the slab there is, it keeps no more than of the largest.
  if (planned.plan.bytes > arena_.memory_->bytes()) GiveFreeMemoryBack();
}

int64_t PassArena::Scope::gap_bytes() const {
  return static_cast<int64_t>(planned_->plan.bytes - planned_->plan.peak_bytes);
}

c10::DataPtr PassArena::Scope::Allocate(size_t bytes) {
  if (recording_ != nullptr) return Record(bytes);
  const std::vector<PassPlan::Place>& places = planned_->plan.places;
  if (next_ < places.size()) {
    const PassPlan::Place& place = places[next_++];
    if (place.offset == PassPlan::Place::kNone) {
      deviated_ |= bytes != place.bytes;
      return AllocateOrdinary(bytes);
    }
    if (bytes <= place.bytes) {
      if (c10::DataPtr taken = range_.Take(place.offset, bytes)) return taken;
    }
  }
  deviated_ |= next_ < places.size() || places.size() < kMostOfPass;
  return AllocateOrdinary(bytes);
}

c10::DataPtr PassArena::Scope::Record(size_t bytes) {
  c10::DataPtr memory = AllocateOrdinary(bytes);
  if (recorded_ == kMostOfPass) return memory;
  ++recorded_;
  return RecordedBlocks::All().Add(recording_, std::move(memory), bytes);
}

}  // namespace fovea::kernels
