// The body of a request, as its bytes come from the socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/memory_budget.h"
#include "server/transport/messages/received_bytes.h"

namespace fovea {

// Grows as bytes come, not by what a header announces, and is counted in budgets that all requests
// share until the last of its bytes is let go of. Move-only; not thread-safe.
class RequestBody {
 public:
  // Counts in both budgets, which outlive its bytes: that of all that requests hold, and the part
  // of it that bodies may.
  RequestBody(MemoryBudget& budget, MemoryBudget& bodies, int64_t max_bytes);

  // Where the next bytes go, at least one: Commit says how many came. RESOURCE_EXHAUSTED
  // request.too_large: there are `max_bytes`; UNAVAILABLE server.request_memory: other requests have
  // the memory; UNAVAILABLE server.out_of_memory: the system has none.
  absl::StatusOr<std::span<char>> Room();
  void Commit(size_t bytes);
  // Copies `text` to the end; Room's errors.
  absl::Status Append(std::string_view text);

  int64_t size() const { return size_; }
  // All of it; shares what it has, which grows no more.
  ReceivedBytes Bytes() const;

 private:
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t size = 0, used = 0;
  };
  struct Blocks {
    MemoryBudget::Hold hold, body_hold;
    std::vector<Block> blocks;
    std::vector<ScatteredBytes::Piece> pieces;  // of Bytes
  };

  int64_t max_bytes_;
  int64_t size_ = 0;
  std::shared_ptr<Blocks> blocks_;
};

}  // namespace fovea
