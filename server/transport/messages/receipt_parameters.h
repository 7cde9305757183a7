// The receipt as parameters of an answer with tensors: what they are called, whatever they are
// written in.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/core/request.h"
#include "server/core/stages.h"

namespace fovea {

// "fovea.compute_ns" and its like, in the stages' order.
inline const std::array<std::string, kStageCount>& StageParameters() {
  static const auto* const names = [] {
    auto* made = new std::array<std::string, kStageCount>;
    for (int i = 0; i < kStageCount; ++i) {
      (*made)[i] = absl::StrCat("fovea.", std::string(kStageNames[i]), "_ns");
    }
    return made;
  }();
  return *names;
}

// `put(name, value)` for each parameter that the answer has, the stages last: the value is an
// int64_t, a double, a bool or a std::string_view. Call it once the encode stage has ended.
template <typename Put>
void ForEachReceiptParameter(const InferenceResponse& response, Put put) {
  const Receipt& receipt = response.receipt;
  put("fovea.batch_size", int64_t{receipt.batch_size});
  put("fovea.batch_threads", int64_t{receipt.batch_threads});
  put("fovea.batch_peak_bytes", int64_t{receipt.batch_peak_bytes});
  if (receipt.device_times) {
    put("fovea.h2d_ns", int64_t{receipt.device_times->h2d});
    put("fovea.kernels_ns", int64_t{receipt.device_times->kernels});
    put("fovea.d2h_ns", int64_t{receipt.device_times->d2h});
  }
  put("fovea.padding", double{receipt.padding});
  if (!receipt.principal.empty()) put("fovea.principal", std::string_view(receipt.principal));
  if (!receipt.experiment.empty()) {
    put("fovea.experiment", std::string_view(receipt.experiment));
    put("fovea.experiment_arm", std::string_view(receipt.experiment_arm));
  }
  if (response.untrained) put("fovea.untrained", true);
  if (response.non_finite_input) put("fovea.non_finite_input", true);
  for (int i = 0; i < kStageCount; ++i) {
    put(StageParameters()[i], int64_t{receipt.stages[static_cast<Stage>(i)]});
  }
}

}  // namespace fovea
