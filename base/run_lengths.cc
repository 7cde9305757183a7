#include "base/run_lengths.h"

#include <cstddef>
#include <utility>

namespace fovea {
namespace {

constexpr int kBits = 5, kMostBits = 55;  // of a group, and of a number that a mask can have

void Append(int64_t number, std::string& text) {
  for (bool more = true; more;) {
    int64_t group = number & 0x1f;
    number >>= kBits;  // arithmetic: its sign stays
    more = (group & 0x10) != 0 ? number != -1 : number != 0;
    if (more) group |= 0x20;
    text.push_back(static_cast<char>(group + '0'));
  }
}

}  // namespace

void RunLengths::Add(bool of_mask, int64_t count) {
  if (count == 0) return;
  if (of_mask != of_mask_) {
    Append(Number(), text_);
    ++ended_;
    before_last_ = std::exchange(previous_, run_);
    run_ = 0;
    of_mask_ = of_mask;
  }
  run_ += count;
}

std::string RunLengths::Text() const {
  std::string text = text_;
  Append(Number(), text);
  return text;
}

std::optional<std::vector<int64_t>> ReadRunLengths(std::string_view text, int64_t pixels) {
  std::vector<int64_t> runs;
  int64_t left = pixels;
  for (size_t at = 0; at < text.size();) {
    int64_t number = 0;
    int shift = 0;
    for (bool more = true; more; shift += kBits) {
      if (at == text.size() || shift > kMostBits) return std::nullopt;
      const int64_t group = text[at++] - '0';
      if (group < 0 || group >= 0x40) return std::nullopt;
      number |= (group & 0x1f) << shift;
      more = (group & 0x20) != 0;
      if (!more && (group & 0x10) != 0) number |= -(int64_t{1} << (shift + kBits));
    }
    if (runs.size() > 2) number += runs[runs.size() - 2];
    if (number < 0 || number > left || std::ssize(runs) > 2 * pixels + 1) return std::nullopt;
    left -= number;
    runs.push_back(number);
  }
  if (left != 0) return std::nullopt;
  return runs;
}

}  // namespace fovea
