// A safetensors header: two bytes say how many bytes of data stand behind it.
#include "model_zoo/weights/safetensors.h"

#include <c10/util/Exception.h>

#include "tests/fuzz/fuzz_target.h"

namespace fovea {

FOVEA_FUZZ_TARGET(safetensors, input) {
  const auto data_bytes = static_cast<uint64_t>(input.TakeInt(0, 65'535));
  std::vector<models::StoredTensor> tensors;
  try {
    tensors = models::ParseSafetensorsHeader(input.rest(), data_bytes);
  } catch (const c10::Error&) {
    return;  // refused
  }
  uint64_t end = 0;
  for (const models::StoredTensor& tensor : tensors) {
    FOVEA_CHECK(tensor.begin == end && tensor.end >= tensor.begin);
    end = tensor.end;
  }
  FOVEA_CHECK(end == data_bytes);
}

}  // namespace fovea
