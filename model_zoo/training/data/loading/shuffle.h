// A data set in a random order, place by place: no list of all of them is kept.
#pragma once

#include <cstdint>

#include "model_zoo/training/data/random.h"

namespace fovea::models::training {

// Which of `count` things comes at `place` in the order number `round`, place < count: a
// permutation of them for each seed and round.
//   A Feistel network of Philox on the smallest square of a power of two that holds `count`; what
//   falls outside goes through again (Black and Rogaway, "Ciphers with arbitrary finite domains",
//   CT-RSA 2002).
inline uint64_t Shuffled(uint64_t place, uint64_t count, uint64_t seed, uint64_t round) {
  int bits = 1;  // of half a number
  while (bits < 32 && (uint64_t{1} << (2 * bits)) < count) ++bits;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  do {
    uint64_t left = place >> bits, right = place & mask;
    for (uint32_t step = 0; step < 4; ++step) {
      const PhiloxBlock mixed =
          Philox({static_cast<uint32_t>(right), step, static_cast<uint32_t>(round),
                  static_cast<uint32_t>(round >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
      const uint64_t next = left ^ (mixed[0] & mask);
      left = right;
      right = next;
    }
    place = left << bits | right;
  } while (place >= count);
  return place;
}

}  // namespace fovea::models::training
