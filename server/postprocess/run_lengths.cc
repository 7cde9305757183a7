#include "server/postprocess/run_lengths.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"

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

// A class's runs, as far as they are told.
struct ClassRuns {
  RunLengths runs;
  int64_t told = 0;  // pixels

  void Add(int64_t begin, int64_t end) {
    runs.Add(false, begin - told);
    runs.Add(true, end - begin);
    told = end;
  }
};

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

absl::StatusOr<std::vector<std::string>> RunLengthsOfClasses(std::span<const uint16_t> map,
                                                             const ImageSize& size, int64_t classes,
                                                             StillWanted wanted) {
  FOVEA_CHECK(std::ssize(map) == size.height * size.width && !map.empty());
  std::vector<ClassRuns> all(classes);
  uint16_t value = map[0];
  int64_t begin = 0, at = 0;  // of the run of `value`, and of the pixel, column by column
  for (int64_t x = 0; x < size.width; ++x) {
    FOVEA_RETURN_IF_ERROR(wanted());
    for (int64_t y = 0; y < size.height; ++y, ++at) {
      const uint16_t next = map[y * size.width + x];
      if (next == value) continue;
      all[value].Add(std::exchange(begin, at), at);
      value = next;
    }
  }
  all[value].Add(begin, at);
  std::vector<std::string> texts(classes);
  for (int64_t c = 0; c < classes; ++c) {
    if (all[c].told == 0) continue;
    all[c].runs.Add(false, at - all[c].told);
    texts[c] = all[c].runs.Text();
    all[c] = {};  // its text is there twice no longer
  }
  return texts;
}

}  // namespace fovea
