#include "server/postprocess/class_map.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"

namespace fovea {
namespace {

// Classes of pixels that are computed before it is asked again whether they are still wanted: some
// milliseconds of work. A row of a wide picture may have a billion.
constexpr int64_t kAskedAfter = int64_t{1} << 20;

// Between which two places of an axis the middles of pixels lie, and how far.
struct Between {
  int64_t low = 0, high = 0;
  float share = 0;  // of the high one
};

Between Place(double at, int64_t places) {
  const double inside = std::clamp(at - 0.5, 0.0, static_cast<double>(places - 1));
  const auto low = static_cast<int64_t>(inside);
  return {low, std::min(low + 1, places - 1),
          static_cast<float>(inside - static_cast<double>(low))};
}

// [places, classes]: the logits of a place lie together.
std::vector<float> ByPlace(const LogitMap& map) {
  const int64_t places = map.height * map.width;
  std::vector<float> turned(map.logits.size());
  // In blocks that stay in the cache.
  constexpr int64_t kBlock = 64;
  for (int64_t first = 0; first < places; first += kBlock) {
    const int64_t end = std::min(places, first + kBlock);
    for (int64_t c = 0; c < map.classes; ++c) {
      const float* from = map.logits.data() + c * places;
      for (int64_t i = first; i < end; ++i) turned[i * map.classes + c] = from[i];
    }
  }
  return turned;
}

uint16_t Largest(const float* logits, int64_t classes) {
  return static_cast<uint16_t>(std::max_element(logits, logits + classes) - logits);
}

uint8_t Confidence(const float* logits, int64_t classes, uint16_t best) {
  float sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - logits[best]);
  return static_cast<uint8_t>(std::lround(255 / sum));
}

}  // namespace

absl::StatusOr<ClassMap> MapClasses(const LogitMap& map, const ImageTransform& seen,
                                    bool confidence, StillWanted wanted) {
  const int64_t height = seen.source_height, width = seen.source_width, classes = map.classes;
  FOVEA_CHECK(std::ssize(map.logits) == classes * map.height * map.width && !map.logits.empty());
  FOVEA_CHECK(classes <= 65'536);
  const std::vector<float> logits = ByPlace(map);
  std::vector<uint16_t> best(map.height * map.width);
  for (size_t i = 0; i < best.size(); ++i) best[i] = Largest(&logits[i * classes], classes);
  std::vector<Between> columns;
  for (int64_t x = 0; x < width; ++x) {
    const double input = seen.InputX(static_cast<double>(x) + 0.5);
    columns.push_back(Place(
        input * static_cast<double>(map.width) / static_cast<double>(seen.input_width), map.width));
  }

  ClassMap result;
  result.classes.resize(height * width);
  if (confidence) result.confidence.resize(result.classes.size());
  std::vector<float> row(map.width * classes), pixel(classes);
  int64_t computed = 0;  // since `wanted` was asked
  for (int64_t y = 0; y < height; ++y) {
    FOVEA_RETURN_IF_ERROR(wanted());
    computed = 0;
    const double input = seen.InputY(static_cast<double>(y) + 0.5);
    const Between rows =
        Place(input * static_cast<double>(map.height) / static_cast<double>(seen.input_height),
              map.height);
    const int64_t above = rows.low * map.width, below = rows.high * map.width;
    bool have_row = false;
    for (int64_t x = 0; x < width; ++x) {
      const Between& at = columns[x];
      const uint16_t first = best[above + at.low];
      const int64_t to = y * width + x;
      result.classes[to] = first;
      const bool same = first == best[above + at.high] && first == best[below + at.low] &&
                        first == best[below + at.high];
      if (same && !confidence) continue;
      if (computed >= kAskedAfter) {
        FOVEA_RETURN_IF_ERROR(wanted());
        computed = 0;
      }
      computed += classes;
      if (!have_row) {
        const float* high = &logits[above * classes];
        const float* low = &logits[below * classes];
        for (size_t i = 0; i < row.size(); ++i) row[i] = high[i] + rows.share * (low[i] - high[i]);
        have_row = true;
      }
      const float* left = &row[at.low * classes];
      const float* right = &row[at.high * classes];
      for (int64_t c = 0; c < classes; ++c) pixel[c] = left[c] + at.share * (right[c] - left[c]);
      result.classes[to] = Largest(pixel.data(), classes);
      if (confidence) result.confidence[to] = Confidence(pixel.data(), classes, result.classes[to]);
    }
  }
  return result;
}

int64_t ClassMapBytes(const LogitMap& map, int64_t pixels, bool confidence) {
  const int64_t places = map.height * map.width;
  return places * (map.classes * int64_t{sizeof(float)} + int64_t{sizeof(uint16_t)}) +
         pixels * (int64_t{sizeof(uint16_t)} + (confidence ? 1 : 0));
}

}  // namespace fovea
