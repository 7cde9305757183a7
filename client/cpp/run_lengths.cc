#include "client/cpp/run_lengths.h"

#include <cstddef>

namespace fovea::client {
namespace {

constexpr int kBits = 5, kMostBits = 55;  // of a group, and of a number that a mask can have

}  // namespace

absl::StatusOr<std::vector<int64_t>> ReadRunLengths(std::string_view text, int64_t pixels) {
  const absl::Status broken = absl::InvalidArgumentError("the run lengths are none of COCO's");
  std::vector<int64_t> runs;
  int64_t left = pixels;
  for (size_t at = 0; at < text.size();) {
    int64_t number = 0;
    int shift = 0;
    for (bool more = true; more; shift += kBits) {
      if (at == text.size() || shift > kMostBits) return broken;
      const int64_t group = text[at++] - '0';
      if (group < 0 || group >= 0x40) return broken;
      number |= (group & 0x1f) << shift;
      more = (group & 0x20) != 0;
      if (!more && (group & 0x10) != 0) number |= -(int64_t{1} << (shift + kBits));
    }
    if (runs.size() > 2) number += runs[runs.size() - 2];
    if (number < 0 || number > left) return broken;
    left -= number;
    runs.push_back(number);
  }
  if (left != 0) return broken;
  return runs;
}

}  // namespace fovea::client
