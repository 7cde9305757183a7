#include "server/transport/http/request_body.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"

namespace fovea {
namespace {

// A picture lies in few pieces, and an empty body takes nothing.
constexpr int64_t kFirstBlockBytes = 64 * limits::kKiB;
constexpr int64_t kLargestBlockBytes = 4 * limits::kMiB;

}  // namespace

RequestBody::RequestBody(MemoryBudget& budget, MemoryBudget& bodies, int64_t max_bytes)
    : max_bytes_(max_bytes), blocks_(std::make_shared<Blocks>()) {
  blocks_->hold = budget.Open();
  blocks_->body_hold = bodies.Open();
}

absl::StatusOr<std::span<char>> RequestBody::Room() {
  std::vector<Block>& blocks = blocks_->blocks;
  if (blocks.empty() || blocks.back().used == blocks.back().size) {
    if (size_ == max_bytes_) {
      return ResourceExhausted("request.too_large",
                               absl::StrCat("a body of more than ", max_bytes_, " bytes"));
    }
    const int64_t bytes =
        std::min(std::clamp(size_, kFirstBlockBytes, kLargestBlockBytes), max_bytes_ - size_);
    if (!blocks_->body_hold.TryGrow(bytes) || !blocks_->hold.TryGrow(bytes)) {
      return Unavailable("server.request_memory",
                         "other requests use the memory for requests: try again");
    }
    FOVEA_RETURN_IF_ERROR(OrOutOfMemory([&] {
      blocks.push_back({.bytes = std::make_unique_for_overwrite<char[]>(bytes),
                        .size = static_cast<size_t>(bytes)});
      return absl::OkStatus();
    }));
  }
  Block& last = blocks.back();
  return std::span(last.bytes.get() + last.used, last.size - last.used);
}

void RequestBody::Commit(size_t bytes) {
  if (bytes == 0) return;
  blocks_->blocks.back().used += bytes;
  size_ += static_cast<int64_t>(bytes);
}

absl::Status RequestBody::Append(std::string_view text) {
  while (!text.empty()) {
    FOVEA_ASSIGN_OR_RETURN(const std::span<char> room, Room());
    const size_t part = std::min(room.size(), text.size());
    std::memcpy(room.data(), text.data(), part);
    Commit(part);
    text.remove_prefix(part);
  }
  return absl::OkStatus();
}

ReceivedBytes RequestBody::Bytes() const {
  blocks_->pieces.clear();
  for (const Block& block : blocks_->blocks) {
    if (block.used > 0) {
      blocks_->pieces.push_back(std::as_bytes(std::span(block.bytes.get(), block.used)));
    }
  }
  return {blocks_->pieces, blocks_};
}

}  // namespace fovea
