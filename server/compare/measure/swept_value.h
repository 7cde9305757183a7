// The values of a sweep: what each changes in a variant, and where it lies on the axis. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model_zoo/model_description.h"
#include "server/core/sweep.h"

namespace fovea {

struct SweptValue {
  std::string text;
  // Resolutions: pixels, to which the number of tokens is proportional; a precision has none.
  std::optional<double> place;
  std::optional<models::ImageSize> size;       // of a resolution
  std::optional<models::Precision> precision;  // of a precision
  int batch_size = 1;
  int threads = 1;
};

// INVALID_ARGUMENT sweep.bad_value: one that does not lie on the request's axis, one that is there
// twice, or counts and shares of k side by side. `device_threads`: at most.
absl::StatusOr<std::vector<SweptValue>> ReadSweptValues(const SweepRequest& request,
                                                        int device_threads);

// The text of a variant's attention at a value of kK, kTemperature and kHeads: "{}" in it is
// replaced; where there is none, the option is added to it. `own` is the model's, and stands for
// none; over k, "knn" does. Of other axes: `attention`. INVALID_ARGUMENT sweep.bad_attention: there
// is no place for the option, because there are several stages, the option is there, or the model
// has no attention.
absl::StatusOr<std::string> AttentionAt(SweepAxis axis, const std::string& attention,
                                        const std::string& own, const std::string& value);

// Whether a cost may follow a power of the axis' number, and an exponent tells anything.
bool HasExponent(SweepAxis axis);

}  // namespace fovea
