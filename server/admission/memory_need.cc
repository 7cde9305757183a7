#include "server/admission/memory_need.h"

namespace fovea {

int64_t MemoryPerImage(const ModelView& model, bool decoded, int64_t result_bytes) {
  int64_t bytes = result_bytes;
  if (decoded) bytes += 3 * model.sizes.front().height * model.sizes.front().width;
  for (const TensorDescription& output : model.outputs) {
    bytes += output.ElementsPerImage() * static_cast<int64_t>(ElementSize(output.type));
  }
  return bytes;
}

}  // namespace fovea
