// From where a task's pixels wait to a batch's input: the only copy between the socket and the
// model.
#pragma once

#include <cstdint>

#include "model_zoo/model_description.h"
#include "server/executor/inference_task.h"
#include "server/executor/normalise.h"

namespace at {
class Tensor;
}

namespace fovea {

// Thread-safe.
class PixelCopy {
 public:
  explicit PixelCopy(const models::Preprocessing& preprocessing)
      : normalisation_(Normalisation::From(preprocessing.mean, preprocessing.std)) {}

  const Normalisation& normalisation() const { return normalisation_; }

  // Whether they are bytes, not numbers that are normalised already.
  static bool AreBytes(const PixelSource& pixels);

  // Into `to`, the images of one task, on the CPU and contiguous: FP32 [images, 3, height, width],
  // into which bytes are normalised, or UINT8 [images, height, width, 3], which bytes alone may go
  // to. What a smaller picture does not fill is zero there.
  void Copy(const PixelSource& pixels, const at::Tensor& to) const;

 private:
  void CopyReceived(const ReceivedPixels& received, const at::Tensor& to) const;
  void CopyDecoded(const ResizedImage& image, const at::Tensor& to) const;

  const Normalisation normalisation_;
};

}  // namespace fovea
