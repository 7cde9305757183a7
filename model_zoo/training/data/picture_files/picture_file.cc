#include "model_zoo/training/data/picture_files/picture_file.h"

#include <turbojpeg.h>
#include <webp/decode.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <vector>

#include "base/limits.h"
#include "base/pixel_format.h"
#include "model_zoo/training/data/picture_files/exif_orientation.h"
#include "model_zoo/training/data/picture_files/png_file.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;
using FileBytes = std::span<const uint8_t>;

// Without the file's name, which ReadPicture puts in front.
[[noreturn]] void Refuse(const std::string& why) { throw DataError(why); }

std::vector<uint8_t> Contents(const fs::path& file) {
  if (!fs::is_regular_file(file)) Refuse("there is no such file");
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream.tellg();
  if (!stream || size < 0) Refuse("it cannot be opened");
  if (size > limits::kMaxEncodedImageBytes) {
    Refuse("it is larger than " + std::to_string(limits::kMaxEncodedImageBytes >> 20) + " MiB");
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  stream.seekg(0).read(reinterpret_cast<char*>(bytes.data()), size);
  if (!stream) Refuse("it cannot be read");
  return bytes;
}

void CheckSize(int64_t width, int64_t height) {
  if (width < 1 || height < 1) Refuse("it has no pixels");
  if (width * height > limits::kMaxImagePixels || std::max(width, height) > limits::kMaxImageSide ||
      std::max(width, height) > limits::kMaxAspectRatio * std::min(width, height)) {
    Refuse("its size of " + std::to_string(width) + " x " + std::to_string(height) +
           " pixels is more than the server takes");
  }
}

// Laid over white.
cv::Mat Opaque(const cv::Mat& rgba) {
  cv::Mat rgb(rgba.size(), CV_8UC3);
  RgbaOverBackground(rgba.total(), rgba.data, {255, 255, 255}, rgb.data);
  return rgb;
}

cv::Mat FromInvertedCmyk(const cv::Mat& cmyk) {
  cv::Mat rgb(cmyk.size(), CV_8UC3);
  InvertedCmykToRgb(cmyk.total(), cmyk.data, rgb.data);
  return rgb;
}

cv::Mat DecodeJpeg(FileBytes file) {
  // One for each picture: a decompressor that has met an error fails at every later one.
  const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitDecompress(), tjDestroy);
  int width = 0, height = 0, subsampling = 0, colours = -1;
  // The result does not count: it is an error where chroma is sampled in an unusual way, too.
  tjDecompressHeader3(handle.get(), file.data(), file.size(), &width, &height, &subsampling,
                      &colours);
  CheckSize(width, height);
  const bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  cv::Mat pixels(height, width, cmyk ? CV_8UC4 : CV_8UC3);
  // The first warning is an error: what cannot be decoded stays as it was.
  if (tjDecompress2(handle.get(), file.data(), file.size(), pixels.data, width,
                    static_cast<int>(pixels.step), height, cmyk ? TJPF_CMYK : TJPF_RGB,
                    TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0) {
    Refuse(std::string("it is damaged: ") + tjGetErrorStr2(handle.get()));
  }
  return Upright(cmyk ? FromInvertedCmyk(pixels) : pixels, JpegOrientation(std::as_bytes(file)));
}

DecodedPng CheckedPng(FileBytes file, PngForm form) {
  DecodedPng decoded = DecodePng(file, form, limits::kMaxImagePixels, limits::kMaxImageSide);
  if (!decoded.failure.empty()) Refuse("it is no PNG that can be read: " + decoded.failure);
  CheckSize(decoded.pixels.cols, decoded.pixels.rows);
  return decoded;
}

cv::Mat DecodeColourPng(FileBytes file) {
  const DecodedPng decoded = CheckedPng(file, PngForm::kColour);
  return Upright(decoded.pixels.channels() == 4 ? Opaque(decoded.pixels) : decoded.pixels,
                 decoded.orientation);
}

cv::Mat DecodeWebp(FileBytes file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK) {
    Refuse("it is damaged");
  }
  if (features.has_animation) Refuse("it is animated");
  CheckSize(features.width, features.height);
  cv::Mat pixels(features.height, features.width, features.has_alpha ? CV_8UC4 : CV_8UC3);
  const auto decode = features.has_alpha ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  if (decode(file.data(), file.size(), pixels.data, pixels.step * pixels.rows,
             static_cast<int>(pixels.step)) == nullptr) {
    Refuse("it is damaged");
  }
  return Upright(features.has_alpha ? Opaque(pixels) : pixels,
                 WebpOrientation(std::as_bytes(file)));
}

bool Has(FileBytes file, size_t at, std::string_view text) {
  return file.size() >= at + text.size() &&
         std::memcmp(file.data() + at, text.data(), text.size()) == 0;
}

// By its first bytes, whatever the file is called.
cv::Mat Decode(FileBytes file) {
  if (Has(file, 0, "\xff\xd8\xff")) return DecodeJpeg(file);
  if (Has(file, 0, "\x89PNG\r\n\x1a\n")) return DecodeColourPng(file);
  if (Has(file, 0, "RIFF") && Has(file, 8, "WEBP")) return DecodeWebp(file);
  Refuse("it is neither JPEG nor PNG nor WebP");
}

template <typename Read>
cv::Mat Named(const fs::path& file, const Read& read) {
  try {
    return read(Contents(file));
  } catch (const DataError& error) {
    throw DataError("the picture " + file.string() + ": " + error.what());
  }
}

}  // namespace

cv::Mat ReadPicture(const fs::path& file) {
  return Named(file, [](const std::vector<uint8_t>& bytes) { return Decode(bytes); });
}

cv::Mat ReadLevels(const fs::path& file) {
  return Named(file, [](const std::vector<uint8_t>& bytes) {
    return CheckedPng(bytes, PngForm::kLevels).pixels;
  });
}

void WritePng(const fs::path& file, const cv::Mat& pixels) {
  const std::string failure = EncodePng(file.string(), pixels);
  if (!failure.empty()) {
    throw std::runtime_error("could not write " + file.string() + ": " + failure);
  }
}

}  // namespace fovea::models::training
