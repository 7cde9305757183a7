// Instructions of a whole warp: shuffles, votes, its barrier (PTX ISA 9.7.9, 9.7.13) and matrices
// (9.7.15).
#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels/ptx/apply.h"
#include "tests/kernels/ptx/block.h"
#include "tests/kernels/ptx/failure.h"
#include "tests/kernels/ptx/number_formats.h"
#include "tests/kernels/ptx/opcode.h"

namespace fovea::ptx {
namespace {

enum class Shuffle { kButterfly, kIndex, kDown, kUp };

// From which lane `lane` reads. c: bits 0 to 4 bound the lane, bits 8 to 12 are the mask of the
// segment's index. `valid` is false where the lane would be outside of its segment, and then reads
// itself.
template <Shuffle kShuffle>
unsigned SourceOf(unsigned lane, uint32_t b, uint32_t c, bool& valid) {
  const unsigned by = b & 0x1F, clamp = c & 0x1F, segment = c >> 8 & 0x1F;
  const unsigned most = (lane & segment) | (clamp & ~segment);
  int source = 0;
  switch (kShuffle) {
    case Shuffle::kButterfly:
      source = static_cast<int>(lane ^ by);
      break;
    case Shuffle::kIndex:
      source = static_cast<int>((lane & segment) | (by & ~segment));
      break;
    case Shuffle::kDown:
      source = static_cast<int>(lane + by);
      break;
    case Shuffle::kUp:
      source = static_cast<int>(lane) - static_cast<int>(by);
      break;
  }
  valid = kShuffle == Shuffle::kUp ? source >= static_cast<int>(most)
                                   : source <= static_cast<int>(most);
  return valid ? static_cast<unsigned>(source) : lane;
}

// shfl.sync d[|p], a, b, c, membermask
template <Shuffle kShuffle>
void ShuffleLanes(Warp& warp, const Instruction& in, LaneMask lanes) {
  uint32_t values[kLanes];
  std::memcpy(values, warp.Lanes<uint32_t>(in.from[0]), sizeof(values));
  LaneMask in_segment = 0;
  ForLanes(lanes, [&](unsigned lane) {
    bool valid = false;
    const unsigned source = SourceOf<kShuffle>(lane, warp.Lanes<uint32_t>(in.from[1])[lane],
                                               warp.Lanes<uint32_t>(in.from[2])[lane], valid);
    if ((lanes >> source & 1) == 0) {
      throw Violation(warp.ThreadOf(lane), "reads lane " + std::to_string(source) +
                                               ", which takes no part in the shuffle");
    }
    warp.Lanes<uint32_t>(in.to[0])[lane] = values[source];
    in_segment |= LaneMask{valid} << lane;
  });
  if (in.to.size() > 1) warp.SetPredicate(in.to[1], lanes, in_segment);
}

enum class Vote { kAny, kAll, kUniform };

template <Vote kVote>
void VoteOnPredicate(Warp& warp, const Instruction& in, LaneMask lanes) {
  const LaneMask votes = warp.PredicateOf(in.from[0]) & lanes;
  const bool any = votes != 0, all = votes == lanes;
  const bool result = kVote == Vote::kAny ? any : kVote == Vote::kAll ? all : all || !any;
  warp.SetPredicate(in.to[0], lanes, result ? kAllLanes : 0);
}

void Ballot(Warp& warp, const Instruction& in, LaneMask lanes) {
  const LaneMask votes = warp.PredicateOf(in.from[0]) & lanes;
  ForLanes(lanes, [&](unsigned lane) { warp.Lanes<uint32_t>(in.to[0])[lane] = votes; });
}

void PassWarpBarrier(Warp& warp, const Instruction&, LaneMask) {
  warp.block().shared().races().PassWarpBarrier(warp.index());
}

// Shared memory serves eight rows of 16 bytes at a time if no two different ones are in the same
// banks; each further round is an extra phase.
int ExtraPhases(const uint64_t (&rows)[8]) {
  int in_banks[8] = {};
  int phases = 1;
  std::set<uint64_t> seen;
  for (const uint64_t row : rows) {
    if (seen.insert(row).second) phases = std::max(phases, ++in_banks[row / 16 % 8]);
  }
  return phases - 1;
}

// ldmatrix.m8n8.x4: lane 8 m + r has the address of row r of matrix m; afterwards lane l has of
// each matrix row l / 4 at columns l % 4 * 2 and the next, or of its transpose.
template <bool kTransposed>
void LoadMatrices(Warp& warp, const Instruction& in, LaneMask lanes) {
  uint16_t matrices[4][8][8];
  uint64_t rows[4][8];
  ForLanes(lanes, [&](unsigned lane) {
    uint64_t& row = rows[lane / 8][lane % 8];
    row = warp.AddressOf(in, lane);
    std::memcpy(matrices[lane / 8][lane % 8],
                warp.block().shared().Read(warp.ThreadOf(lane), row, 16, ~uint32_t{0}), 16);
  });
  for (const auto& of_matrix : rows) {
    warp.block().launch().ldmatrix_extra_phases += ExtraPhases(of_matrix);
  }
  ForLanes(lanes, [&](unsigned lane) {
    const unsigned row = lane / 4, column = lane % 4 * 2;
    for (int m = 0; m < 4; ++m) {
      const auto& at = matrices[m];
      const uint32_t low = kTransposed ? at[column][row] : at[row][column];
      const uint32_t high = kTransposed ? at[column + 1][row] : at[row][column + 1];
      warp.Lanes<uint32_t>(in.to[m])[lane] = low | high << 16;
    }
  });
}

// The layout of mma.m16n8k16's fragments: where element e of register r of a lane lies.
struct Place {
  unsigned row, column;
};
Place InLeft(unsigned lane, unsigned r, unsigned e) {
  return {lane / 4 + r % 2 * 8, lane % 4 * 2 + r / 2 * 8 + e};
}
Place InRight(unsigned lane, unsigned r, unsigned e) {
  return {lane % 4 * 2 + r * 8 + e, lane / 4};
}
Place InSum(unsigned lane, unsigned r) { return {lane / 4 + r / 2 * 8, lane % 4 * 2 + r % 2}; }

template <auto kFloatOf>
float ElementOf(uint32_t pair, unsigned e) {
  return kFloatOf(static_cast<uint16_t>(pair >> (16 * e)));
}

// d = a [16, 16] * b [16, 8] + c. The products are added up in fp32, in the order of k; tensor
// cores add in another order, and with more bits in between.
template <auto kFloatOf>
void MultiplyMatrices(Warp& warp, const Instruction& in, LaneMask lanes) {
  float a[16][16], b[16][8], c[16][8];
  ForLanes(lanes, [&](unsigned lane) {
    const auto pair = [&](int i) { return warp.Lanes<uint32_t>(in.from[i])[lane]; };
    for (unsigned e = 0; e < 2; ++e) {
      for (unsigned r = 0; r < 4; ++r) {
        const Place place = InLeft(lane, r, e);
        a[place.row][place.column] = ElementOf<kFloatOf>(pair(r), e);
      }
      for (unsigned r = 0; r < 2; ++r) {
        const Place place = InRight(lane, r, e);
        b[place.row][place.column] = ElementOf<kFloatOf>(pair(4 + r), e);
      }
    }
    for (unsigned r = 0; r < 4; ++r) {
      const Place place = InSum(lane, r);
      c[place.row][place.column] = warp.Lanes<float>(in.from[6 + r])[lane];
    }
  });
  for (unsigned row = 0; row < 16; ++row) {
    float sums[8] = {};
    for (unsigned k = 0; k < 16; ++k) {
      for (unsigned column = 0; column < 8; ++column) sums[column] += a[row][k] * b[k][column];
    }
    for (unsigned column = 0; column < 8; ++column) c[row][column] += sums[column];
  }
  ForLanes(lanes, [&](unsigned lane) {
    for (unsigned r = 0; r < 4; ++r) {
      const Place place = InSum(lane, r);
      warp.Lanes<float>(in.to[r])[lane] = c[place.row][place.column];
    }
  });
}

float TabulatedF16(uint16_t bits) {
  static const std::vector<float>& table = *new std::vector<float>([] {
    std::vector<float> all(1 << 16);
    for (size_t i = 0; i < all.size(); ++i) all[i] = FloatOfF16(static_cast<uint16_t>(i));
    return all;
  }());
  return table[bits];
}

Decoded CollectiveOf(Execute execute, const char* signature, int mask_operand = -1) {
  Decoded decoded;
  decoded.execute = execute;
  decoded.signature = signature;
  decoded.flow = Flow::kCollective;
  decoded.mask_operand = mask_operand;
  return decoded;
}

std::optional<Decoded> DecodeMatrices(Opcode& opcode) {
  if (opcode.Is("ldmatrix")) {
    for (const auto modifier : {"sync", "aligned", "m8n8", "x4", "shared", "b16"}) {
      if (!opcode.Take(modifier)) return std::nullopt;
    }
    return CollectiveOf(opcode.Take("trans") ? &LoadMatrices<true> : &LoadMatrices<false>, "4*=a");
  }
  for (const auto modifier : {"sync", "aligned", "m16n8k16", "row", "col", "f32", "f32"}) {
    if (!opcode.Take(modifier)) return std::nullopt;
  }
  if (opcode.Take("bf16") && opcode.Take("bf16")) {
    return CollectiveOf(&MultiplyMatrices<FloatOfBf16>, "4*=4*4*4*");
  }
  if (opcode.Take("f16") && opcode.Take("f16")) {
    return CollectiveOf(&MultiplyMatrices<TabulatedF16>, "4*=4*4*4*");
  }
  return std::nullopt;
}

std::optional<Decoded> DecodeShuffle(Opcode& opcode) {
  if (!opcode.Take("sync") || !opcode.Take("b32")) return std::nullopt;
  static constexpr Execute kShuffles[] = {
      &ShuffleLanes<Shuffle::kButterfly>, &ShuffleLanes<Shuffle::kIndex>,
      &ShuffleLanes<Shuffle::kDown>, &ShuffleLanes<Shuffle::kUp>};
  const std::optional<int> which = opcode.TakeOneOf({"bfly", "idx", "down", "up"});
  if (!which) return std::nullopt;
  return CollectiveOf(kShuffles[*which], "4p?=4444", /*mask_operand=*/3);
}

std::optional<Decoded> DecodeVote(Opcode& opcode) {
  if (!opcode.Take("sync")) return std::nullopt;
  if (opcode.Take("ballot") && opcode.Take("b32")) {
    return CollectiveOf(&Ballot, "4=p4", /*mask_operand=*/1);
  }
  if (!opcode.Take("pred")) return std::nullopt;
  static constexpr Execute kVotes[] = {&VoteOnPredicate<Vote::kAny>, &VoteOnPredicate<Vote::kAll>,
                                       &VoteOnPredicate<Vote::kUniform>};
  const std::optional<int> which = opcode.TakeOneOf({"any", "all", "uni"});
  if (!which) return std::nullopt;
  return CollectiveOf(kVotes[*which], "p=p4", /*mask_operand=*/1);
}

}  // namespace

std::optional<Decoded> DecodeCollective(Opcode& opcode) {
  if (opcode.Is("ldmatrix") || opcode.Is("mma")) return DecodeMatrices(opcode);
  if (opcode.Is("shfl")) return DecodeShuffle(opcode);
  if (opcode.Is("vote")) return DecodeVote(opcode);
  if (opcode.Is("bar") && opcode.Take("warp") && opcode.Take("sync")) {
    return CollectiveOf(&PassWarpBarrier, "=4", /*mask_operand=*/0);
  }
  return std::nullopt;
}

}  // namespace fovea::ptx
