// The memory that a request makes the server hold beside its message: what is unpacked or made of
// it, and its answer until that has left (docs/faults.md, promise 6).
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "server/core/memory_budget.h"

namespace fovea {

// One request's share of a budget that all share. It never waits: a request that the server has
// taken in holds memory already, and two that waited for each other's would never end. Not
// thread-safe, but for bytes(): it goes with its request from stage to stage.
class RequestMemory {
 public:
  explicit RequestMemory(MemoryBudget& budget) : budget_(budget), hold_(budget.Open()) {}

  // Before so much is allocated. UNAVAILABLE server.request_memory: others hold it now;
  // RESOURCE_EXHAUSTED request.memory: more than the server has for all.
  absl::Status Take(int64_t bytes);
  // Only so much is left of it, an answer for example.
  void KeepOnly(int64_t bytes) {
    hold_.ShrinkTo(bytes);
    bytes_ = hold_.bytes();
  }
  int64_t bytes() const { return bytes_; }
  void Release() { KeepOnly(0); }

 private:
  MemoryBudget& budget_;
  MemoryBudget::Hold hold_;
  std::atomic<int64_t> bytes_ = 0;  // of the hold
};

}  // namespace fovea
