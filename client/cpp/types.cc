#include "client/cpp/types.h"

namespace fovea::client {

absl::Duration Receipt::total() const {
  absl::Duration sum;
  for (absl::Duration stage : stages) sum += stage;
  return sum;
}

absl::Duration DurationSum::mean() const {
  return count == 0 ? absl::ZeroDuration() : total / static_cast<double>(count);
}

}  // namespace fovea::client
