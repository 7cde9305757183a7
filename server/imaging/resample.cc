// Rows are filtered along x as the filter along y comes to need them, into a ring that holds no
// more rows than one output row takes: the intermediate image stays in the cache whatever the size
// of the source.
#include "server/imaging/resample.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "server/imaging/resample_simd.h"
#include "server/imaging/resample_weights.h"

namespace fovea {
namespace {

// The source's rows, filtered along x and cut to the window's columns. Rows are asked for in order.
class RowSource {
 public:
  RowSource(const uint8_t* rgb, int64_t height, const SourceAxis& columns, const ResizePlan& plan,
            Interpolation interpolation, int64_t most_rows_at_once)
      : rgb_(rgb), height_(height), row_bytes_(3 * columns.samples), left_(3 * plan.left) {
    if (columns.KeepsItsSize(plan.resized_width)) return;  // rows are used where they lie
    across_.emplace(AxisWeights(columns, plan.resized_width, plan.left, plan.width, interpolation));
    ring_rows_ = most_rows_at_once + kRowsTogether;
    ring_stride_ = 3 * plan.width + static_cast<int64_t>(kRowPadding);
    ring_.resize(ring_rows_ * ring_stride_);
  }

  // Points `rows` at source rows [start, start + count), valid until the next call. `start` never
  // goes back.
  void Get(int64_t start, int64_t count, std::vector<const uint8_t*>& rows) {
    rows.resize(count);
    if (!across_) {
      for (int64_t i = 0; i < count; ++i) rows[i] = rgb_ + (start + i) * row_bytes_ + left_;
      return;
    }
    filtered_ = std::max(filtered_, start);
    while (filtered_ < start + count) FilterNext();
    for (int64_t i = 0; i < count; ++i) rows[i] = Slot(start + i);
  }

 private:
  uint8_t* Slot(int64_t row) { return ring_.data() + row % ring_rows_ * ring_stride_; }

  void FilterNext() {
    const uint8_t* rows[kRowsTogether];
    uint8_t* out[kRowsTogether];
    for (int i = 0; i < kRowsTogether; ++i) {
      // Past the last row it is done again, into a slot that nothing waits for.
      rows[i] = Padded(std::min(filtered_ + i, height_ - 1));
      out[i] = Slot(filtered_ + i);
    }
    FilterAcross(rows, *across_, out);
    filtered_ += kRowsTogether;
  }

  // The row, with bytes after it that may be read: those of the next rows, or of a copy.
  const uint8_t* Padded(int64_t row) {
    if ((height_ - row - 1) * row_bytes_ >= static_cast<int64_t>(kRowPadding))
      return rgb_ + row * row_bytes_;
    if (tail_.empty()) {
      tail_first_ = row;
      tail_.resize((height_ - row) * row_bytes_ + kRowPadding);
      std::memcpy(tail_.data(), rgb_ + row * row_bytes_, (height_ - row) * row_bytes_);
    }
    return tail_.data() + (row - tail_first_) * row_bytes_;
  }

  const uint8_t* const rgb_;
  const int64_t height_;
  const int64_t row_bytes_;
  const int64_t left_;
  std::optional<AcrossWeights> across_;
  std::vector<uint8_t> ring_;
  int64_t ring_rows_ = 0;
  int64_t ring_stride_ = 0;
  int64_t filtered_ = 0;  // the first row that has not been filtered yet
  std::vector<uint8_t> tail_;
  int64_t tail_first_ = 0;
};

// Filters along y first, then along x: each of the window's rows from all columns of the source.
void ResampleDownFirst(const uint8_t* rgb, const SourceAxis& lines, const SourceAxis& columns,
                       const ResizePlan& plan, Interpolation interpolation, uint8_t* out) {
  const AxisWeights down(lines, plan.resized_height, plan.top, plan.height, interpolation);
  const AcrossWeights across(
      AxisWeights(columns, plan.resized_width, plan.left, plan.width, interpolation));
  const auto in_bytes = static_cast<size_t>(3 * columns.samples);
  const auto out_bytes = static_cast<size_t>(3 * plan.width);
  const size_t in_stride = in_bytes + kRowPadding, out_stride = out_bytes + kRowPadding;
  std::vector<uint8_t> filtered(kRowsTogether * in_stride), finished(kRowsTogether * out_stride);
  const uint8_t* from[kRowsTogether];
  uint8_t* to[kRowsTogether];
  for (int i = 0; i < kRowsTogether; ++i) {
    from[i] = filtered.data() + i * in_stride;
    to[i] = finished.data() + i * out_stride;
  }
  std::vector<const uint8_t*> rows;
  for (int64_t top = 0; top < plan.height; top += kRowsTogether) {
    const auto count = static_cast<int>(std::min<int64_t>(kRowsTogether, plan.height - top));
    for (int i = 0; i < count; ++i) {
      const int64_t taps = down.count(top + i);
      rows.resize(taps);
      for (int64_t t = 0; t < taps; ++t) rows[t] = rgb + (down.start(top + i) + t) * in_bytes;
      FilterDown(rows.data(), down.weights(top + i).data(), taps, in_bytes,
                 filtered.data() + i * in_stride);
    }
    FilterAcross(from, across, to);
    for (int i = 0; i < count; ++i, out += out_bytes) std::memcpy(out, to[i], out_bytes);
  }
}

}  // namespace

void Resample(const uint8_t* rgb, int64_t height, int64_t width, const SourceBox& box,
              const ResizePlan& plan, Interpolation interpolation, uint8_t* out) {
  const int64_t out_bytes = 3 * plan.width;
  std::optional<AxisWeights> down;
  const SourceAxis lines{height, box.top, box.height};
  if (!lines.KeepsItsSize(plan.resized_height)) {
    down.emplace(lines, plan.resized_height, plan.top, plan.height, interpolation);
  }
  const SourceAxis columns{width, box.left, box.width};
  if (down && !columns.KeepsItsSize(plan.resized_width) && GoesDownFirst(height, width, plan)) {
    return ResampleDownFirst(rgb, lines, columns, plan, interpolation, out);
  }
  RowSource source(rgb, height, columns, plan, interpolation, down ? down->max_count() : 1);
  std::vector<const uint8_t*> rows;
  for (int64_t y = 0; y < plan.height; ++y, out += out_bytes) {
    if (down) {
      source.Get(down->start(y), down->count(y), rows);
      FilterDown(rows.data(), down->weights(y).data(), down->count(y), out_bytes, out);
    } else {
      source.Get(plan.top + y, 1, rows);
      std::memcpy(out, rows[0], out_bytes);
    }
  }
}

}  // namespace fovea
