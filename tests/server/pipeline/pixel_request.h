// Requests of pixels that run as they are, or are resized.
#pragma once

#include <memory>
#include <string>

#include "server/core/request.h"

namespace fovea {

// Of `images` grey images, side x side, that arrives at `now`.
inline std::unique_ptr<InferenceRequest> PixelRequest(int images, int side, Nanos now) {
  auto request = std::make_unique<InferenceRequest>();
  request->model_name = "model";
  request->stages = StageTimes(now);
  request->input = NamedTensors{{"image_rgb",
                                 DataType::kUint8,
                                 {images, side, side, 3},
                                 ScatteredBytes::Copy(std::string(images * side * side * 3, 'A'))}};
  return request;
}

}  // namespace fovea
