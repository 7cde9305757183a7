#include "server/admission/memory_need.h"

#include <algorithm>

namespace fovea {
namespace {

// Of one class of one image: an element of a list with its label's text, the same as a message, and
// the message encoded.
int64_t ClassBytes(const ModelView& model) {
  constexpr int64_t kRecord = 128;
  return kRecord + 3 * static_cast<int64_t>(model.longest_label);
}

// Of one image.
int64_t Elements(const TensorDescription& output) {
  int64_t elements = 1;
  for (size_t i = 1; i < output.shape.size(); ++i) {
    elements *= std::max<int64_t>(output.shape[i], 1);
  }
  return elements;
}

}  // namespace

int64_t MemoryNeed(const InferenceRequest& request, const AcceptedInput& input,
                   const ModelView& model, bool decoded) {
  int64_t image_bytes = decoded ? 3 * model.image_height * model.image_width : 0;
  int64_t classes = std::min<int64_t>(request.top_k, model.num_classes);
  for (const TensorDescription& output : model.outputs) {
    const int64_t elements = Elements(output);
    image_bytes += elements * static_cast<int64_t>(ElementSize(output.type));
    for (const RequestedOutput& wanted : request.outputs) {
      if (wanted.name == output.name) classes += std::min(wanted.classification, elements);
    }
  }
  return input.images * (image_bytes + classes * ClassBytes(model));
}

}  // namespace fovea
