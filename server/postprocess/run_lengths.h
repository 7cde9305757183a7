// COCO's run lengths of a mask: column by column, how many pixels are not of it and how many are in
// turn.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/core/image_size.h"

namespace fovea {

class RunLengths {
 public:
  // The next `count` pixels.
  void Add(bool of_mask, int64_t count);
  // Compressed as COCO's tools write them ("counts"): each but the first three as its difference
  // from the one before the last, in groups of five bits, lowest first, with a sixth bit where more
  // follow, as characters from "0" on (cocoapi, maskApi.c, rleToString).
  std::string Text() const;

 private:
  std::vector<int64_t> runs_ = {0};
  bool of_mask_ = false;  // the last run
};

// Of the pixels of `map` [size.height, size.width] that are `value`.
std::string RunLengthsOf(std::span<const uint16_t> map, const ImageSize& size, uint16_t value);

}  // namespace fovea
