#include "server/postprocess/class_run_lengths.h"

#include <utility>

#include "base/check.h"
#include "base/run_lengths.h"
#include "base/status.h"

namespace fovea {
namespace {

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
