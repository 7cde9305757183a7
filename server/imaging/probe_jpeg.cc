// ITU-T T.81, annex B: a JPEG file is a chain of segments, with entropy-coded bytes after each
// start of scan.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/exif.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr uint8_t kPrefix = 0xff;
constexpr uint8_t kStuffing = 0x00;
constexpr uint8_t kTemporary = 0x01;
constexpr uint8_t kFrame0 = 0xc0, kFrame1 = 0xc1,
                  kFrame2 = 0xc2;  // baseline, extended, progressive
constexpr uint8_t kArithmeticFrame1 = 0xc9, kArithmeticFrame2 = 0xca;
constexpr uint8_t kHuffmanTables = 0xc4, kArithmeticTables = 0xcc, kLastFrame = 0xcf;
constexpr uint8_t kRestart0 = 0xd0, kRestart7 = 0xd7;
constexpr uint8_t kStart = 0xd8, kEnd = 0xd9, kScan = 0xda;
constexpr uint8_t kApplication0 = 0xe0, kApplication1 = 0xe1, kApplication15 = 0xef,
                  kComment = 0xfe;
constexpr uint8_t kHeightOfLines = 0xdc;

bool IsRestart(uint8_t marker) { return marker >= kRestart0 && marker <= kRestart7; }

bool IsFrame(uint8_t marker) {
  return marker >= kFrame0 && marker <= kLastFrame && marker != kHuffmanTables &&
         marker != kArithmeticTables;
}

// True for segments of which libjpeg passes over what it does not know, whatever their length says.
bool IsSkipped(uint8_t marker) {
  return (marker >= kApplication0 && marker <= kApplication15) || marker == kComment ||
         marker == kHeightOfLines;
}

absl::Status UnsupportedJpeg(const char* what) {
  return InvalidArgument("image.unsupported_type", absl::StrCat("a JPEG image with ", what));
}

class JpegWalk {
 public:
  // `whole`: true for a file of its own; false for a part of a TIFF file, whose reader checks the
  // size and the components.
  JpegWalk(Bytes encoded, const ImageLimits& limits, bool whole)
      : encoded_(encoded), limits_(limits), whole_(whole) {
    info_.format = ImageFormat::kJpeg;
    info_.scans = 0;
  }

  absl::StatusOr<ImageInfo> Run() { return WalkUntil(kEnd); }

  // As far as the first scan: the frame comes before it.
  std::optional<ImageInfo> Peek() {
    // What lies past the beginning is missing, not wrong.
    (void)WalkUntil(kScan);
    if (info_.width == 0) return std::nullopt;
    info_.scans = progressive_ ? 2 : 1;
    return info_;
  }

 private:
  absl::StatusOr<ImageInfo> WalkUntil(uint8_t last) {
    at_ = 2;
    for (;;) {
      if (at_ == encoded_.size() && EndsInZeros()) break;
      FOVEA_ASSIGN_OR_RETURN(const uint8_t marker, NextMarker());
      if (marker == last) break;
      if (marker == kTemporary || IsRestart(marker)) continue;
      if (marker == kStart || marker < kFrame0 || (marker > kApplication15 && marker != kComment)) {
        return Corrupt("an unexpected marker");
      }
      if (encoded_.size() - at_ < 2) return Truncated();
      size_t length = U16Big(encoded_, at_);
      if (length < 2) {
        if (!IsSkipped(marker)) return Corrupt("a segment's length");
        length = 2;
      }
      if (encoded_.size() - at_ < length) return Truncated();
      const Bytes segment = encoded_.subspan(at_ + 2, length - 2);
      at_ += length;
      FOVEA_RETURN_IF_ERROR(Segment(marker, segment));
    }
    if (info_.scans == 0) return Corrupt("it holds no pixels");
    info_.encoded_bytes = static_cast<int64_t>(at_);
    if (!keeps_coefficients_) info_.coefficients = 0;
    return info_;
  }

  // True for a sequential file that ends in zeros instead of the end marker, as cameras and file
  // systems may leave it: in more of them than libjpeg reads ahead. The decoder then checks that
  // all pixels come before the zeros, which it cannot do for progressive files.
  bool EndsInZeros() const {
    constexpr size_t kZeros = 16;
    return whole_ && info_.scans > 0 && !progressive_ && encoded_.size() >= kZeros &&
           std::ranges::all_of(encoded_.last(kZeros),
                               [](std::byte byte) { return byte == std::byte(0); });
  }

  // The next marker, as libjpeg looks for it: fill bytes come before it, and bytes that belong to
  // nothing, stuffed zeros among them, are passed over.
  absl::StatusOr<uint8_t> NextMarker() {
    for (;;) {
      const void* found = std::memchr(encoded_.data() + at_, kPrefix, encoded_.size() - at_);
      if (found == nullptr) return Truncated();
      at_ = static_cast<size_t>(static_cast<const std::byte*>(found) - encoded_.data());
      while (at_ < encoded_.size() && U8(encoded_, at_) == kPrefix) ++at_;
      if (at_ == encoded_.size()) return Truncated();
      if (const uint8_t marker = U8(encoded_, at_++); marker != kStuffing) return marker;
    }
  }

  absl::Status Segment(uint8_t marker, Bytes segment) {
    if (IsFrame(marker)) return Frame(marker, segment);
    if (marker == kScan) return Scan(segment);
    if (IsSkipped(marker)) {
      metadata_bytes_ += static_cast<int64_t>(segment.size());
      if (metadata_bytes_ > limits_.max_metadata_bytes) return MetadataTooLarge(limits_);
      if (marker == kApplication1 && !has_exif_ && StartsWith(segment, 0, kExifPrefix)) {
        has_exif_ = true;
        info_.orientation = ExifOrientation(segment);
      }
    }
    return absl::OkStatus();  // tables are the decoder's affair
  }

  absl::Status Frame(uint8_t marker, Bytes segment) {
    if (info_.width != 0) return Corrupt("it describes its size twice");
    if (marker != kFrame0 && marker != kFrame1 && marker != kFrame2 &&
        marker != kArithmeticFrame1 && marker != kArithmeticFrame2) {
      return UnsupportedJpeg("lossless or hierarchical coding");
    }
    if (segment.size() < 6) return Corrupt("its frame header");
    info_.bit_depth = U8(segment, 0);
    const int height = U16Big(segment, 1);
    const int width = U16Big(segment, 3);
    info_.components = U8(segment, 5);
    if (info_.bit_depth != 8) return UnsupportedJpeg("other than 8 bits a component");
    if (whole_ && info_.components != 1 && info_.components != 3 && info_.components != 4) {
      return UnsupportedJpeg("other than 1, 3 or 4 components");
    }
    if (whole_) FOVEA_RETURN_IF_ERROR(CheckSize(width, height, limits_));
    if (width == 0 || height == 0) return Corrupt("its width or height is zero");
    info_.width = width;
    info_.height = height;
    progressive_ = marker == kFrame2 || marker == kArithmeticFrame2;
    return CountCoefficients(segment.subspan(6));
  }

  // Each component's samples, in whole blocks of 8 x 8 and of the groups that scans interleave.
  // `components`: three bytes each, the second with the sampling factors.
  absl::Status CountCoefficients(Bytes components) {
    if (components.size() < size_t{3} * info_.components) return Corrupt("its frame header");
    int widest = 1, highest = 1;
    for (int pass = 0; pass < 2; ++pass) {
      for (int i = 0; i < info_.components; ++i) {
        const int across = U8(components, 3 * i + 1) >> 4, down = U8(components, 3 * i + 1) & 15;
        if (across < 1 || across > 4 || down < 1 || down > 4) return Corrupt("its frame header");
        if (pass == 0) {
          widest = std::max(widest, across);
          highest = std::max(highest, down);
        } else {
          const auto groups = [](int64_t side, int64_t pixels) {
            return (side + pixels - 1) / pixels;
          };
          info_.coefficients += groups(info_.width, 8 * widest) * across *
                                groups(info_.height, 8 * highest) * down * 64;
        }
      }
    }
    return absl::OkStatus();
  }

  // Counts the scan and goes to the marker after its entropy-coded bytes, in which a marker is a
  // 0xff that neither a stuffed zero nor a restart follows.
  absl::Status Scan(Bytes segment) {
    if (info_.width == 0) return Corrupt("its pixels come before its size");
    ++info_.scans;
    keeps_coefficients_ = keeps_coefficients_ || progressive_ || info_.scans > 1 ||
                          segment.empty() || U8(segment, 0) < info_.components;
    if (info_.scans > limits_.max_jpeg_scans ||
        info_.scans * info_.pixels() > limits_.max_jpeg_scan_pixels) {
      return InvalidArgument("image.too_many_scans",
                             "the JPEG image passes over its pixels too many times");
    }
    while (at_ + 1 < encoded_.size()) {
      const void* found = std::memchr(encoded_.data() + at_, kPrefix, encoded_.size() - 1 - at_);
      if (found == nullptr) break;
      at_ = static_cast<size_t>(static_cast<const std::byte*>(found) - encoded_.data());
      const uint8_t next = U8(encoded_, at_ + 1);
      if (next == kPrefix) {
        ++at_;  // a fill byte
      } else if (next == kStuffing || IsRestart(next)) {
        at_ += 2;
      } else {
        return absl::OkStatus();
      }
    }
    if (!EndsInZeros()) return Truncated();
    at_ = encoded_.size();
    return absl::OkStatus();
  }

  const Bytes encoded_;
  const ImageLimits& limits_;
  const bool whole_;
  ImageInfo info_;
  size_t at_ = 0;  // never past the end
  int64_t metadata_bytes_ = 0;
  bool has_exif_ = false;
  bool progressive_ = false;
  bool keeps_coefficients_ = false;  // of the whole picture, until its last scan
};

}  // namespace

absl::StatusOr<ImageInfo> ProbeJpeg(Bytes encoded, const ImageLimits& limits) {
  return JpegWalk(encoded, limits, /*whole=*/true).Run();
}

absl::StatusOr<ImageInfo> ProbeJpegPart(Bytes encoded, const ImageLimits& limits) {
  if (!StartsWith(encoded, 0, "\xff\xd8")) return Corrupt("a strip that is no JPEG");
  return JpegWalk(encoded, limits, /*whole=*/false).Run();
}

std::optional<ImageInfo> PeekJpeg(Bytes beginning) {
  const ImageLimits limits;
  return JpegWalk(beginning, limits, /*whole=*/true).Peek();
}

}  // namespace fovea
