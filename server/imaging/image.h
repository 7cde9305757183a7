// What imaging knows of an image: how it is stored, what is accepted, and its pixels once decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/limits.h"

namespace fovea {

enum class ImageFormat { kJpeg, kPng, kWebp, kGif, kBmp, kTiff, kAvif };

// "JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF", "AVIF".
const char* ImageFormatName(ImageFormat format);

// What an encoded image may be. Every limit is checked on the header, before anything is allocated
// for the pixels.
struct ImageLimits {
  int64_t max_encoded_bytes = limits::kMaxEncodedImageBytes;
  // Width * height: the memory of one decode is some 3 to 20 times this.
  int64_t max_pixels = limits::kMaxImagePixels;
  int max_side = limits::kMaxImageSide;
  int min_side = 1;  // raise it to refuse images too small to mean anything
  int max_aspect_ratio = limits::kMaxAspectRatio;  // longer over shorter side
  int max_jpeg_scans = limits::kMaxJpegScans;
  // Scans * pixels: the time of one decode.
  int64_t max_jpeg_scan_pixels = limits::kMaxJpegScanPixels;
  // Of everything in the file that is not pixels.
  int64_t max_metadata_bytes = limits::kMaxImageMetadataBytes;
};

// An image's header.
struct ImageInfo {
  ImageFormat format = ImageFormat::kJpeg;
  int width = 0;  // as stored: before the orientation is applied
  int height = 0;
  int orientation = 1;  // EXIF's 1 to 8; 1 where it is absent or makes no sense
  int components = 3;   // 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha (in a JPEG: CMYK)
  int bit_depth = 8;    // of one component
  int scans = 1;        // passes over the image in the file (JPEG; 7 in an interlaced PNG)
  bool lossless = false;  // WebP: its pixels, or how transparent they are, are coded without loss
  // JPEG: coefficients that are kept until the last scan has been read.
  int64_t coefficients = 0;
  // TIFF: a strip or tile, stored and unpacked. AVIF: the decoder's frames.
  int64_t buffer_bytes = 0;
  // The image ends here; bytes that follow are not looked at.
  int64_t encoded_bytes = 0;
  // At most so many bytes are held at once while it is decoded and turned upright, its pixels among
  // them.
  int64_t decode_bytes = 0;

  int64_t pixels() const { return int64_t{width} * height; }
};

using Rgb = std::array<uint8_t, 3>;

// 8-bit RGB, row-major, `height * width * 3` bytes without padding. Moves only.
struct RgbImage {
  int height = 0;
  int width = 0;
  std::unique_ptr<uint8_t[]> pixels;

  // The pixels are uninitialised. Throws std::bad_alloc.
  static RgbImage Allocate(int height, int width);

  // The same, of one colour.
  static RgbImage Filled(int height, int width, const Rgb& colour);

  size_t size() const { return size_t{3} * height * width; }
  std::span<const uint8_t> bytes() const { return {pixels.get(), size()}; }
};

}  // namespace fovea
