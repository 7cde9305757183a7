// Variants that are served for a while, as models are: what is asked for, and what serves. Plain
// data, and the interface that runs it; the fields are those of proto/fovea/v1/comparison.proto,
// which says what each means.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/core/cancellation.h"
#include "server/core/comparison_progress.h"
#include "server/core/variant.h"

namespace fovea {

struct ServeRequest {
  std::vector<Variant> variants;
};

struct ServedVariant {
  std::string served_as;  // the model's name in every other call
  std::string model_name;
  std::string model_version;
  std::string backbone;
  std::string attention;             // canonical text
  std::string weights_of_attention;  // empty: the model's own
  bool untrained = false;
};

// Thread-safe.
class VariantServing {
 public:
  virtual ~VariantServing() = default;

  // The variants, in the order in which they were asked for.
  using Served = std::function<void(std::vector<ServedVariant>)>;
  using Done = std::function<void(absl::Status)>;
  // Returns at once. `progress` is called now and then, then `served`, where it comes to that, and
  // again every other second; from then on the variants are served until `done` is called, once and
  // last, with why they are no longer. All are called on a thread of the serving's own, on the one
  // that cancels, or here where it refuses; all return quickly. Setting `cancellation` ends it.
  // Errors as ComparisonService.Serve's.
  virtual void Serve(ServeRequest request, CancellationPtr cancellation, ProgressListener progress,
                     Served served, Done done) = 0;
};

}  // namespace fovea
