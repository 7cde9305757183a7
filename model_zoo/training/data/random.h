// Random numbers that are a pure function of (seed, stream, index, draw): the same on every
// machine, whatever the order in which pictures are drawn and however many threads draw them. The
// standard library's distributions promise neither.
//   Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace fovea::models::training {

using PhiloxBlock = std::array<uint32_t, 4>;

// A bijection of the 128-bit counter for each key: different counters never give the same block.
inline PhiloxBlock Philox(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0], product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// The numbers of one thing (a picture, a parameter). Two of them with a different stream or index
// share no block.
class Random {
 public:
  Random(uint64_t seed, uint32_t stream, uint64_t index)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, stream, static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)} {}

  uint32_t Next() {
    if (used_ == 4) {
      block_ = Philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  // In [0, 1): 24 bits, which a float holds exactly.
  float Unit() { return static_cast<float>(Next() >> 8) * 0x1p-24f; }
  float Uniform(float low, float high) { return low + (high - low) * Unit(); }
  bool Chance(float probability) { return Unit() < probability; }
  // In [0, count). The bias of the multiplication is below count / 2^32.
  int Below(int count) {
    return static_cast<int>((uint64_t{Next()} * static_cast<uint32_t>(count)) >> 32);
  }

 private:
  std::array<uint32_t, 2> key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  int used_ = 4;
};

}  // namespace fovea::models::training
