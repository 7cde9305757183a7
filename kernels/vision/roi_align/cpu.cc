// RoIAlign on the CPU, outermost: regions over threads, samples into weights of rows and columns.
// cpu_pool.cc sums.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/vision/roi_align/cpu_pool.h"
#include "kernels/vision/roi_align/implementations.h"
#include "kernels/vision/roi_align/samples.h"

namespace fovea::kernels {
namespace {

using roi_align::Axis;
using roi_align::Region;
using roi_align::Sample;
using roi_align::Tap;
using roi_align::Taps;

// One axis's taps, bin by bin.
class TapList {
 public:
  // `factor`: what every weight is multiplied by.
  void Fill(const Axis& axis, int64_t bins, int64_t stride, float factor) {
    taps_.clear();
    first_.assign(1, 0);
    for (int64_t bin = 0; bin < bins; ++bin) {
      const roi_align::Range range = roi_align::RangeIn(axis, bin);
      for (int64_t i = range.first; i < range.past; ++i) {
        const Sample sample = roi_align::SampleAt(axis, bin, i);
        if (!sample.inside) continue;
        Add(sample.low * stride, sample.low_weight * factor);
        Add(sample.high * stride, sample.high_weight * factor);
      }
      first_.push_back(static_cast<int64_t>(taps_.size()));
    }
  }

  Taps View() const { return {taps_.data(), first_.data()}; }
  const std::vector<Tap>& taps() const { return taps_; }

 private:
  // Neighbouring samples share pixels: one of the last two taps, if any of this bin's.
  void Add(int64_t offset, float weight) {
    const int64_t count = static_cast<int64_t>(taps_.size());
    for (int64_t i = count - 1; i >= std::max(count - 2, first_.back()); --i) {
      if (taps_[i].offset == offset) {
        taps_[i].weight += weight;
        return;
      }
    }
    taps_.push_back({offset, weight});
  }

  std::vector<Tap> taps_;
  std::vector<int64_t> first_;
};

// One thread's regions.
class Pool {
 public:
  // `in.input`: columns or channels contiguous, as `channels_last` says.
  Pool(const RoiAlignInputs& in, const at::Tensor& output, bool channels_last)
      : in_(in), output_(output), channels_last_(channels_last) {
    region_.bf16 = in.input.scalar_type() == at::kBFloat16;
    region_.image_channel = in.input.stride(1);
    region_.output_channel = output.stride(1);
    region_.output_row = output.stride(2);
    region_.output_column = output.stride(3);
    region_.channels = in.input.size(1);
    region_.h = in.h;
    region_.w = in.w;
    if (!channels_last) row_.resize(in.input.size(3));
    region_.row = row_.data();
  }

  void Run(int64_t k) {
    const float* roi = in_.rois.const_data_ptr<float>() + k * 5;
    const float scale = static_cast<float>(in_.spatial_scale);
    const Axis rows = roi_align::AxisOf(roi[2], roi[4], scale, in_.h, in_.sampling, in_.aligned,
                                        in_.input.size(2));
    const Axis columns = roi_align::AxisOf(roi[1], roi[3], scale, in_.w, in_.sampling, in_.aligned,
                                           in_.input.size(3));
    if (!rows.IsFinite() || !columns.IsFinite()) {
      return FillWithNan(k);
    }
    const float samples = static_cast<float>(std::max<int64_t>(rows.samples, 1)) *
                          std::max<int64_t>(columns.samples, 1);
    rows_.Fill(rows, in_.h, in_.input.stride(2), 1.0f / samples);
    columns_.Fill(columns, in_.w, channels_last_ ? in_.input.stride(3) : 1, 1.0f);
    region_.rows = rows_.View();
    region_.columns = columns_.View();

    const int64_t bytes = in_.input.element_size();
    region_.image = static_cast<const char*>(in_.input.const_data_ptr()) +
                    static_cast<int64_t>(roi[0]) * in_.input.stride(0) * bytes;
    region_.output = static_cast<char*>(output_.mutable_data_ptr()) + k * output_.stride(0) * bytes;
    if (channels_last_) return roi_align::PoolChannelsLast(region_);
    region_.first_column = region_.column_count = 0;
    if (!columns_.taps().empty()) {
      const auto [first, last] =
          std::minmax_element(columns_.taps().begin(), columns_.taps().end(),
                              [](const Tap& a, const Tap& b) { return a.offset < b.offset; });
      region_.first_column = first->offset;
      region_.column_count = last->offset - first->offset + 1;
    }
    roi_align::PoolPlanes(region_);
  }

 private:
  // As raw memory, which is dense in both layouts: threads of a pool do not have the caller's
  // inference mode, without which ATen does not write to its tensors.
  void FillWithNan(int64_t k) {
    const int64_t count = region_.channels * in_.h * in_.w;
    void* const data = static_cast<char*>(output_.mutable_data_ptr()) +
                       k * output_.stride(0) * output_.element_size();
    if (output_.scalar_type() == at::kFloat) {
      std::fill_n(static_cast<float*>(data), count, std::numeric_limits<float>::quiet_NaN());
    } else {
      constexpr uint16_t kBf16Nan = 0x7FC0;
      std::fill_n(static_cast<uint16_t*>(data), count, kBf16Nan);
    }
  }

  const RoiAlignInputs& in_;
  const at::Tensor& output_;
  const bool channels_last_;
  TapList rows_, columns_;
  std::vector<float> row_;
  Region region_{};
};

}  // namespace

void RoiAlignCpu(const RoiAlignInputs& in, const at::Tensor& output) {
  const bool channels_last = in.input.stride(1) == 1 && output.stride(1) == 1;
  RoiAlignInputs readable = in;
  if (!channels_last && in.input.stride(3) != 1) readable.input = in.input.contiguous();
  // Starting a thread costs about as much as some thousand outputs.
  const int64_t grain = std::max<int64_t>(1, 4096 / (in.input.size(1) * in.h * in.w));
  at::parallel_for(0, in.rois.size(0), grain, [&](int64_t begin, int64_t end) {
    Pool pool(readable, output, channels_last);
    for (int64_t k = begin; k < end; ++k) pool.Run(k);
  });
}

}  // namespace fovea::kernels
