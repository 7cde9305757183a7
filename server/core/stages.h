// The stages of a request, the same in metrics, receipts and spans, and the stopwatch that
// attributes its time to them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/core/clock.h"

namespace fovea {

enum class Stage { kReceive, kDecode, kPreprocess, kQueue, kCompute, kPostprocess, kEncode };
inline constexpr int kStageCount = 7;
inline constexpr std::array<std::string_view, kStageCount> kStageNames = {
    "receive", "decode", "preprocess", "queue", "compute", "postprocess", "encode"};

// Attributes every moment since its start to exactly one stage, so that the stages' sum is the
// whole by construction. Not thread-safe: it travels with the request.
class StageTimes {
 public:
  StageTimes() = default;
  explicit StageTimes(Nanos start) : start_(start), last_(start) {}

  // The time since the last call (or the start) was spent in `stage`.
  void EndStage(Stage stage, Nanos now) {
    spent_[static_cast<int>(stage)] += now - last_;
    last_ = now;
  }

  // Moves up to `duration` of what was attributed to `from` to `to`: for a part measured on another
  // thread.
  void Reattribute(Stage from, Stage to, Nanos duration) {
    Nanos& source = spent_[static_cast<int>(from)];
    const Nanos moved = duration < source ? duration : source;
    source -= moved;
    spent_[static_cast<int>(to)] += moved;
  }

  Nanos operator[](Stage stage) const { return spent_[static_cast<int>(stage)]; }
  Nanos start() const { return start_; }
  Nanos total() const { return last_ - start_; }

 private:
  Nanos start_ = 0;
  Nanos last_ = 0;
  std::array<Nanos, kStageCount> spent_{};
};

// What a request cost, as told to its caller.
struct Receipt {
  StageTimes stages;
  int batch_size = 0;  // images in the batch that it was run in
  // Most bytes that the whole batch's tensors held at one time, weights not counted.
  int64_t batch_peak_bytes = 0;
  // Of the pixels that the model took for this request's images, the share that shows nothing.
  double padding = 0;
  std::string principal;  // whom the caller has proved to be; empty: nobody in particular
};

}  // namespace fovea
