#include "server/postprocess/run_lengths.h"

#include <vector>

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

std::string RunLengths(std::span<const uint16_t> map, const ImageSize& size, uint16_t value) {
  FOVEA_CHECK(std::ssize(map) == size.height * size.width);
  std::vector<int64_t> runs = {0};
  bool inside = false;
  for (int64_t x = 0; x < size.width; ++x) {
    for (int64_t y = 0; y < size.height; ++y) {
      const bool is = map[y * size.width + x] == value;
      if (is != inside) {
        runs.push_back(0);
        inside = is;
      }
      ++runs.back();
    }
  }
  std::string text;
  for (size_t i = 0; i < runs.size(); ++i) Append(runs[i] - (i > 2 ? runs[i - 2] : 0), text);
  return text;
}

}  // namespace fovea
