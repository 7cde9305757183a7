#include "model_zoo/training/data/loading/shape_loader.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace fovea::models::training {

ShapeBatch DrawShapeBatch(uint64_t seed, Stream stream, uint64_t first, int64_t count, int side) {
  ShapeBatch batch{at::empty({count, side, side, 3}, at::kByte), at::empty({count}, at::kLong),
                   at::empty({count, side, side}, at::kByte)};
  auto* pixels = batch.pixels.mutable_data_ptr<uint8_t>();
  auto* labels = batch.labels.mutable_data_ptr<int64_t>();
  auto* extent = batch.extent.mutable_data_ptr<uint8_t>();
  const size_t area = static_cast<size_t>(side) * side;
  for (int64_t i = 0; i < count; ++i) {
    const Picture picture = DrawPicture(seed, stream, first + i, {side, side});
    std::memcpy(pixels + i * 3 * area, picture.rgb.data, 3 * area);
    std::memcpy(extent + i * area, picture.extent.data, area);
    labels[i] = static_cast<int64_t>(picture.shape);
  }
  return batch;
}

at::Tensor NormalisedShapes(const at::Tensor& pixels) {
  return pixels.permute({0, 3, 1, 2})
      .to(at::kFloat, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::Contiguous)
      .div_(127.5f)
      .sub_(1.0f);
}

ShapeLoader::ShapeLoader(const Options& options)
    : options_(options), started_(options.first_batch) {
  for (int i = 0; i < std::max(1, options.threads); ++i) DrawAnother();
}

void ShapeLoader::DrawAnother() {
  drawing_.push_back(std::async(std::launch::async, DrawShapeBatch, options_.seed, options_.stream,
                                static_cast<uint64_t>(started_ * options_.batch_size),
                                options_.batch_size, options_.side));
  ++started_;
}

ShapeBatch ShapeLoader::Next() {
  ShapeBatch batch = drawing_.front().get();
  drawing_.pop_front();
  DrawAnother();
  return batch;
}

}  // namespace fovea::models::training
