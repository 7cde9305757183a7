// What can be said of a request from itself and the model's description alone: what is wrong with
// it, and what it will make the server hold. Before it takes a place in a queue, and without a look
// at the pixels.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/input_names.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"

namespace fovea {

enum class InputKind { kPixelValues, kImage, kImageRgb };

// The input of a request that keeps the rules.
struct AcceptedInput {
  InputKind kind = InputKind::kPixelValues;
  const InputTensor* tensor = nullptr;  // the request's; null where it came as images
  std::vector<ScatteredBytes> files;    // kImage: each image
  int images = 0;                       // at least 1, at most the model's max_batch_size
  // Of pixels at one of the model's sizes, which run as they are: its place in ModelView::sizes.
  // Absent: they are to be made of one. That is so of every picture that keeps its shape: image_rgb
  // is answered as the same picture in a file, whose sides may be made shorter inside of the size.
  std::optional<size_t> size;
};

// Judges by shapes, sizes and names only: its time does not depend on the number of pixels.
// INVALID_ARGUMENT: no input or more than one, one that the model does not take, another type or
// shape than it takes, data that is not the size of its shape, more images than max_batch_size, an
// image of too many pixels. RESOURCE_EXHAUSTED: an encoded image of more than
// ModelView::max_image_bytes. What it asks for is the postprocessor's to judge.
absl::StatusOr<AcceptedInput> CheckRequest(const InferenceRequest& request, const ModelView& model);

// Bytes at most for each image of an accepted request, beside the message and what decoding it
// takes while it lasts: pixels at one of the model's sizes where they have to be made (`decoded`),
// the model's outputs, and the results that are made of them (`result_bytes`).
int64_t MemoryPerImage(const ModelView& model, bool decoded, int64_t result_bytes);

// RESOURCE_EXHAUSTED image.too_large_for_device where batches of that one of the model's sizes hold
// more than the server has for them.
absl::Status CheckDeviceBytes(const ModelView& model, size_t size);

// False where one of the float32 numbers of `data` is NaN or infinite (denormals are neither).
// `data` holds whole numbers. Reads all of it, as fast as memory goes.
bool IsFinite(const ScatteredBytes& data);

}  // namespace fovea
