#include "server/executor/pixel_copy.h"

#include <ATen/ATen.h>

#include <cstring>
#include <variant>
#include <vector>

#include "base/check.h"

namespace fovea {

bool PixelCopy::AreBytes(const PixelSource& pixels) {
  const auto* received = std::get_if<ReceivedPixels>(&pixels);
  return received == nullptr || !received->normalised;
}

void PixelCopy::Copy(const PixelSource& pixels, const at::Tensor& to) const {
  if (const auto* received = std::get_if<ReceivedPixels>(&pixels)) {
    CopyReceived(*received, to);
    return;
  }
  const auto& images = std::get<DecodedPixels>(pixels).images;
  FOVEA_CHECK(static_cast<int64_t>(images.size()) == to.size(0));
  for (int64_t i = 0; i < to.size(0); ++i) CopyDecoded(images[i], to[i]);
}

void PixelCopy::CopyReceived(const ReceivedPixels& received, const at::Tensor& to) const {
  if (received.normalised == (to.scalar_type() == at::kFloat)) {
    FOVEA_CHECK(received.data.size() == to.nbytes());
    received.data.CopyTo(0, received.data.size(), to.mutable_data_ptr());
    return;
  }
  FOVEA_CHECK(!received.normalised);
  // A pixel may lie across two slices: its bytes are brought together first.
  std::vector<std::byte> storage;
  const ScatteredBytes::Piece bytes = received.data.Contiguous(&storage);
  FOVEA_CHECK(bytes.size() == static_cast<size_t>(to.numel()));
  const auto* rgb = reinterpret_cast<const uint8_t*>(bytes.data());
  const int64_t height = to.size(2), width = to.size(3), pixels = height * width;
  for (int64_t image = 0; image < to.size(0); ++image) {
    NormaliseImage(rgb + image * pixels * 3, height, width, normalisation_,
                   to.mutable_data_ptr<float>() + image * pixels * 3,
                   {.row = width, .plane = pixels});
  }
}

// Into `to`, one image: [3, height, width] or [height, width, 3].
void PixelCopy::CopyDecoded(const ResizedImage& image, const at::Tensor& to) const {
  const int64_t height = image.transform.height, width = image.transform.width;
  const bool bytes = to.scalar_type() == at::kByte;
  const int64_t room_height = to.size(bytes ? 0 : 1), room_width = to.size(bytes ? 1 : 2);
  FOVEA_CHECK(static_cast<int64_t>(image.rgb.size()) == 3 * height * width);
  FOVEA_CHECK(height <= room_height && width <= room_width);
  if (height < room_height || width < room_width) {
    std::memset(to.mutable_data_ptr(), 0, to.nbytes());
  }
  if (bytes) {
    auto* row = to.mutable_data_ptr<uint8_t>();
    for (int64_t y = 0; y < height; ++y, row += 3 * room_width) {
      std::memcpy(row, image.rgb.data() + 3 * width * y, 3 * width);
    }
    return;
  }
  NormaliseImage(image.rgb.data(), height, width, normalisation_, to.mutable_data_ptr<float>(),
                 {.row = room_width, .plane = room_height * room_width});
}

}  // namespace fovea
