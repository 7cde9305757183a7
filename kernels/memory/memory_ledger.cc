#include "kernels/memory/memory_ledger.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <unordered_map>

#include "kernels/memory/cpu_allocator.h"

namespace fovea::kernels {
namespace {

class Observer final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* pointer, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device /*device*/) override {
    if (bytes > 0) {
      sizes_[pointer] = bytes;
      live_ += bytes;
      peak_ = std::max(peak_, live_);
    } else if (auto found = sizes_.find(pointer); found != sizes_.end()) {
      live_ -= found->second;
      sizes_.erase(found);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }

 private:
  std::unordered_map<void*, int64_t> sizes_;  // what was allocated under this ledger
  int64_t live_ = 0;
  int64_t peak_ = 0;
};

}  // namespace

struct MemoryLedger::State {
  std::shared_ptr<Observer> observer = std::make_shared<Observer>();
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, observer};
};

MemoryLedger::MemoryLedger() : state_(std::make_unique<State>()) {}
MemoryLedger::~MemoryLedger() = default;

int64_t MemoryLedger::live_bytes() const { return state_->observer->live(); }
int64_t MemoryLedger::peak_bytes() const { return state_->observer->peak(); }

struct UncountedMemory::Guard {
  ~Guard() { ExchangeThreadSource(source); }

  struct Nobody final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
    bool memoryProfilingEnabled() const override { return false; }
  };
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Nobody>()};
  AllocationSource* const source = ExchangeThreadSource(nullptr);
};

UncountedMemory::UncountedMemory() : guard_(std::make_unique<Guard>()) {}
UncountedMemory::~UncountedMemory() = default;

}  // namespace fovea::kernels
