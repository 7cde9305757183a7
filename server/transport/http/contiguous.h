// A body in one piece, for readers that need it so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "server/core/tensor.h"
#include "server/transport/messages/received_bytes.h"

namespace fovea {

struct ContiguousText {
  std::string_view text;
  std::shared_ptr<const void> owner;  // keeps it alive
};

// The first `size` bytes of `body`, which has as many, copied, with `padding` zeros behind them.
inline ContiguousText Gather(const ReceivedBytes& body, size_t size, size_t padding) {
  const std::shared_ptr<char[]> bytes(new char[size + padding]);
  size_t copied = 0;
  for (const ScatteredBytes::Piece piece : body.pieces) {
    const size_t part = std::min(piece.size(), size - copied);
    std::memcpy(bytes.get() + copied, piece.data(), part);
    copied += part;
  }
  std::memset(bytes.get() + size, 0, padding);
  return {std::string_view(bytes.get(), size), bytes};
}

}  // namespace fovea
