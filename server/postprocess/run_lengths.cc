#include "server/postprocess/run_lengths.h"

#include "base/check.h"

namespace fovea {
namespace {

void Append(int64_t number, std::string& text) {
  constexpr int kBits = 5;
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
    runs_.push_back(0);
    of_mask_ = of_mask;
  }
  runs_.back() += count;
}

std::string RunLengths::Text() const {
  std::string text;
  for (size_t i = 0; i < runs_.size(); ++i) Append(runs_[i] - (i > 2 ? runs_[i - 2] : 0), text);
  return text;
}

std::string RunLengthsOf(std::span<const uint16_t> map, const ImageSize& size, uint16_t value) {
  FOVEA_CHECK(std::ssize(map) == size.height * size.width);
  RunLengths runs;
  for (int64_t x = 0; x < size.width; ++x) {
    for (int64_t y = 0; y < size.height; ++y) runs.Add(map[y * size.width + x] == value, 1);
  }
  return runs.Text();
}

}  // namespace fovea
