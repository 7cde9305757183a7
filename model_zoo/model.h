// A loaded model: what the executor runs, what Python compares and what the trainer starts from.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <span>
#include <vector>

#include "model_zoo/forward_context.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// Life: Load (weights read and checked) -> Prepare (turned into what runs) -> Run, or its two
// parts, which are thread-safe on a prepared model: instances share one.
//   A prepared model is its weights. What follows from an input size (grids, windows, masks,
//   resized positions and bias tables) is a plan: Prepare makes one for the model's own size and
//   for each of the further ones that its description lists, so none is made while somebody waits.
//   A plan is the model that would be loaded at that size, bit for bit, and shares its weights with
//   the others.
// Everything throws c10::Error; where the description, the file or the pixels are wrong it is the
// subclass c10::ValueError, whose first line is a sentence for an operator.
class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;

  // Turns loaded weights into what runs on `device` in `precision`: cast, packed, folded; frees
  // what inference does not need. Called once. Throws c10::ValueError in words where the model
  // cannot run at one of its further sizes, in FP16 and `device` is the CPU, or in INT8 and it is
  // not.
  virtual void Prepare(c10::Device device, Precision precision) = 0;

  // What is computed for a batch together. pixels: FP32 [N, 3, H, W], normalised (or UINT8
  // [N, H, W, 3], see info().pixel_input), H and W the model's own or, prepared, one of
  // info().further_sizes. Returns what Finish takes, [N, ...] and contiguous, on the CPU or the
  // device. Stops early, with an empty result, when context.ShouldStop().
  virtual std::vector<at::Tensor> RunBatch(const at::Tensor& pixels,
                                           ForwardContext& context) const = 0;

  // What is left to do for each image by itself, such as suppressing boxes; nothing unless
  // info().finishes. `images`: rows of RunBatch's tensors, [n, ...], contiguous and on the CPU,
  // wherever the model runs: who runs it brings them there. Of any n images that were run at
  // `input`; `contents`: how much of each, from its upper left corner, shows the picture.
  // Returns one tensor per info().outputs, [n, ...] of its type and contiguous.
  virtual std::vector<at::Tensor> Finish(std::vector<at::Tensor> images, const ImageSize& /*input*/,
                                         std::span<const ImageSize> /*contents*/) const {
    return images;
  }

  // RunBatch, and Finish for all of its images with what context.Content says. Returns its tensors
  // on the CPU.
  std::vector<at::Tensor> Run(const at::Tensor& pixels, ForwardContext& context) const;

  // The feature pyramid of the same pixels: FP32 [N, channels, H/stride, W/stride] for each of
  // info().features, rounded up (down where patches overlap: PiT). A backbone with stages gives
  // theirs, at its own strides: 4, 8, 16, 32 mostly, but VOLO's are 8 and three times 16, PiT's 7,
  // 14, 28, Visformer's 8, 16, 32, CvT's 4, 8, 16. A plain one gives layers/simple_pyramid.h's.
  // Throws c10::ValueError where the model has none.
  virtual std::vector<at::Tensor> Features(const at::Tensor& pixels,
                                           ForwardContext& context) const = 0;

  // Bytes held by parameters, buffers and packed weights, and by the plans.
  virtual int64_t weight_bytes() const = 0;
};

}  // namespace fovea::models
