// Bytes as they came from a socket.
#pragma once

#include <memory>
#include <span>

#include "server/core/tensor.h"

namespace fovea {

struct ReceivedBytes {
  std::span<const ScatteredBytes::Piece> pieces;
  std::shared_ptr<const void> owner;  // keeps them alive
};

}  // namespace fovea
