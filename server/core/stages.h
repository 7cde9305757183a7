// The stages of a request, the same in metrics, receipts and spans, and the stopwatch that
// attributes its time to them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/core/clock.h"

namespace fovea {

enum class Stage { kReceive, kDecode, kPreprocess, kQueue, kCompute, kPostprocess, kEncode };
inline constexpr int kStageCount = 7;
inline constexpr std::array<std::string_view, kStageCount> kStageNames = {
    "receive", "decode", "preprocess", "queue", "compute", "postprocess", "encode"};

// A stretch of a request's time that was spent in a stage.
struct StageInterval {
  Stage stage = Stage::kReceive;
  Nanos start = 0, end = 0;  // when it really began and ended
  // What of it the stage's time has: all, but where images were decoded and resized side by side.
  Nanos attributed = 0;
};

// Attributes every moment since its start to exactly one stage, so that the stages' sum is the
// whole by construction; and keeps when each stretch began. Not thread-safe: it travels with the
// request.
class StageTimes {
 public:
  StageTimes() = default;
  explicit StageTimes(Nanos start) : start_(start), last_(start) {}

  // The time since the last call (or the start) was spent in `stage`.
  void EndStage(Stage stage, Nanos now) {
    AddInterval({stage, last_, now, now - last_});
    last_ = now;
  }

  // The time since then was spent in decoding images and in resizing them, perhaps several side by
  // side: `decode` of it counts as decoding. The first of them was decoded at `first_decoded`, the
  // last at `last_decoded`; kNever: none was.
  void EndImaging(Nanos now, Nanos decode, Nanos first_decoded, Nanos last_decoded) {
    const Nanos whole = now - last_;
    decode = std::min(decode, whole);
    if (first_decoded == kNever) {
      // Nothing was to be decoded, or it could not be.
      if (decode > 0) AddInterval({Stage::kDecode, last_, now, decode});
      if (decode < whole) AddInterval({Stage::kPreprocess, last_, now, whole - decode});
    } else {
      AddInterval({Stage::kDecode, last_, last_decoded, decode});
      AddInterval({Stage::kPreprocess, first_decoded, now, whole - decode});
    }
    last_ = now;
  }

  Nanos operator[](Stage stage) const { return spent_[static_cast<int>(stage)]; }
  Nanos start() const { return start_; }
  Nanos total() const { return last_ - start_; }
  // In the order of their starts.
  std::span<const StageInterval> intervals() const {
    return std::span(intervals_).first(static_cast<size_t>(count_));
  }

 private:
  // More than the pipeline's order gives any request: eight.
  static constexpr int kMaxIntervals = 12;

  void AddInterval(const StageInterval& interval) {
    spent_[static_cast<int>(interval.stage)] += interval.attributed;
    if (count_ < kMaxIntervals) intervals_[count_++] = interval;
  }

  Nanos start_ = 0;
  Nanos last_ = 0;
  std::array<Nanos, kStageCount> spent_{};
  int count_ = 0;
  std::array<StageInterval, kMaxIntervals> intervals_{};
};

// What a GPU did during a batch's compute stage, by its own clock. They do not add up to the stage,
// which also has the gathering and the launching.
struct DeviceTimes {
  Nanos h2d = 0;      // pixels to the device
  Nanos kernels = 0;  // normalisation and the model
  Nanos d2h = 0;      // results back
};

// What a request cost, as told to its caller.
struct Receipt {
  StageTimes stages;
  int batch_size = 0;     // images in the batch that it was run in
  int batch_threads = 0;  // of the device, that ran the batch
  // Most bytes that the whole batch's tensors held at one time, weights not counted.
  int64_t batch_peak_bytes = 0;
  std::optional<DeviceTimes> device_times;  // of the batch; absent on the CPU
  // Of the pixels that the model took for this request's images, the share that shows nothing.
  double padding = 0;
  std::string principal;  // whom the caller has proved to be; empty: nobody in particular
  std::string experiment, experiment_arm;  // that has sent it there; empty: none
};

}  // namespace fovea
