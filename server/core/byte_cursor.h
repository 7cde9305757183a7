// Reads scattered bytes from front to back.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "server/core/tensor.h"

namespace fovea {

// Not thread-safe. The pieces and their bytes outlive it.
// What reads past the end returns false and leaves the cursor where it was.
class ByteCursor {
 public:
  using Piece = ScatteredBytes::Piece;

  explicit ByteCursor(std::span<const Piece> pieces) : pieces_(pieces) {
    for (Piece piece : pieces_) remaining_ += piece.size();
  }
  explicit ByteCursor(const ScatteredBytes& bytes)
      : pieces_(bytes.pieces()), remaining_(bytes.size()) {}

  size_t remaining() const { return remaining_; }

  // What lies in one piece from here on; empty only at the end.
  Piece Contiguous() {
    while (piece_ < pieces_.size() && offset_ == pieces_[piece_].size()) {
      ++piece_;
      offset_ = 0;
    }
    return piece_ < pieces_.size() ? pieces_[piece_].subspan(offset_) : Piece();
  }

  bool Read(size_t count, void* to) {
    auto* out = static_cast<std::byte*>(to);
    return ForEachPiece(count, [&out](Piece piece) {
      std::memcpy(out, piece.data(), piece.size());
      out += piece.size();
    });
  }

  bool Skip(size_t count) {
    return ForEachPiece(count, [](Piece) {});
  }

  // Appends the next `count` bytes to `to`, without copying them. Pieces that touch become one.
  bool Take(size_t count, std::vector<Piece>* to) {
    return ForEachPiece(count, [to](Piece piece) {
      if (!to->empty() && to->back().data() + to->back().size() == piece.data()) {
        to->back() = Piece(to->back().data(), to->back().size() + piece.size());
      } else {
        to->push_back(piece);
      }
    });
  }

 private:
  template <typename Visit>
  bool ForEachPiece(size_t count, Visit visit) {
    if (count > remaining_) return false;
    remaining_ -= count;
    while (count > 0) {
      const Piece piece = Contiguous();
      const size_t step = std::min(count, piece.size());
      visit(piece.first(step));
      offset_ += step;
      count -= step;
    }
    return true;
  }

  std::span<const Piece> pieces_;
  size_t piece_ = 0;   // index of the piece that is read
  size_t offset_ = 0;  // in it
  size_t remaining_ = 0;
};

}  // namespace fovea
