#include "server/imaging/tiff_directory.h"

#include <algorithm>
#include <bitset>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr size_t kHeaderBytes = 8;
constexpr size_t kEntryBytes = 12;
// libtiff compares every entry with every other, and sorts its own list again for each tag that it
// does not know. Scientific and raw formats have about a hundred entries.
constexpr size_t kMostEntries = 512;
// Bytes by which the blocks' byte counts together may exceed the file's size.
constexpr uint64_t kSharedBytes = 1 << 20;

absl::Status Unsupported(const std::string& what) {
  return InvalidArgument("image.unsupported_type",
                         absl::StrCat("a TIFF image with ", what, ": convert it to JPEG or PNG"));
}

// The values of an entry: numbers of one, two or four bytes.
struct Values {
  Bytes data;
  size_t each = 0;
  size_t count = 0;
};

class Directory {
 public:
  Directory(Bytes file, const ImageLimits& limits)
      : file_(file), limits_(limits), big_(StartsWith(file, 0, "MM")) {}

  absl::StatusOr<TiffPage> Read() {
    if (file_.size() < kHeaderBytes) return Truncated();
    const size_t at = U32(4);
    if (at < kHeaderBytes) return Corrupt("its directory");
    if (at > file_.size() || file_.size() - at < 2) return Truncated();
    const size_t entries = U16(at);
    if (entries > kMostEntries) {
      return InvalidArgument("image.metadata_too_large",
                             absl::StrCat("the image's directory has ", entries, " tags; at most ",
                                          kMostEntries, " are read"));
    }
    if ((file_.size() - at - 2) / kEntryBytes < entries) return Truncated();
    for (size_t i = 0; i < entries; ++i) FOVEA_RETURN_IF_ERROR(Entry(at + 2 + i * kEntryBytes));
    return Finish();
  }

 private:
  uint16_t U16(size_t at) const { return big_ ? U16Big(file_, at) : U16Little(file_, at); }
  uint32_t U32(size_t at) const { return big_ ? U32Big(file_, at) : U32Little(file_, at); }

  static size_t BytesOf(uint16_t type) {
    // The last three are types of BigTIFF, which libtiff accepts in any TIFF.
    constexpr uint8_t kBytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
    return type < std::size(kBytes) ? kBytes[type] : 0;
  }

  absl::Status Entry(size_t at) {
    const uint16_t tag = U16(at);
    if (seen_[tag]) return absl::OkStatus();  // libtiff also uses the first
    seen_[tag] = true;
    const size_t each = BytesOf(U16(at + 2));
    const uint64_t bytes = uint64_t{each} * U32(at + 4);
    if (each == 0) return absl::OkStatus();  // libtiff leaves it out, too
    size_t from = at + 8;
    if (bytes > 4) {
      from = U32(at + 8);
      if (from > file_.size() || bytes > file_.size() - from) return Truncated();
    }
    const Values values{file_.subspan(from, bytes), each, U32(at + 4)};
    switch (tag) {
      case 273:  // StripOffsets
      case 324:  // TileOffsets
        offsets_ = values;
        return absl::OkStatus();
      case 279:  // StripByteCounts
      case 325:  // TileByteCounts
        counts_ = values;
        return absl::OkStatus();
      default:
        page_.metadata_bytes += static_cast<int64_t>(bytes);
        if (page_.metadata_bytes > limits_.max_metadata_bytes) return MetadataTooLarge(limits_);
        return Field(tag, values);
    }
  }

  uint32_t Number(const Values& values, size_t i) const {
    const size_t at = static_cast<size_t>(values.data.data() - file_.data()) + i * values.each;
    return values.each == 1 ? U8(file_, at) : values.each == 2 ? U16(at) : U32(at);
  }

  absl::Status Field(uint16_t tag, const Values& values) {
    if (values.count == 0 || values.each > 4) return absl::OkStatus();
    const uint32_t number = Number(values, 0);
    switch (tag) {
      case 256:
        page_.width = number;
        break;
      case 257:
        page_.height = number;
        break;
      case 258:
        page_.bits = static_cast<int>(std::min(number, 64u));
        for (size_t i = 1; i < std::min<size_t>(values.count, 8); ++i) {
          if (Number(values, i) != number) return Unsupported("samples of different depths");
        }
        break;
      case 259:
        compression_ = number;
        break;
      case 262:
        photometric_ = number;
        break;
      case 274:
        if (number >= 1 && number <= 8) page_.orientation = static_cast<int>(number);
        break;
      case 277:
        page_.samples = static_cast<int>(std::min(number, 64u));
        break;
      case 278:
        rows_per_strip_ = number;
        break;
      case 284:
        page_.planes = number == 2;
        break;
      case 322:
        tile_width_ = number;
        break;
      case 323:
        tile_height_ = number;
        break;
      case 338:
        extra_samples_ = values.count;
        extra_ = number;
        break;
      case 339:
        if (number != 1) return Unsupported("signed or floating-point samples");
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TiffPage> Finish() {
    FOVEA_RETURN_IF_ERROR(CheckSize(page_.width, page_.height, limits_));
    FOVEA_RETURN_IF_ERROR(CheckCompression());
    FOVEA_RETURN_IF_ERROR(CheckSamples());
    FOVEA_RETURN_IF_ERROR(CheckBlocks());
    if (page_.is_jpeg) FOVEA_RETURN_IF_ERROR(CheckJpegs());
    return page_;
  }

  absl::Status CheckCompression() {
    switch (compression_) {
      case 7:
        page_.is_jpeg = true;
        [[fallthrough]];
      case 1:  // none
      case 2:  // CCITT's, of bits
      case 3:
      case 4:
      case 5:      // LZW
      case 8:      // Deflate
      case 32773:  // PackBits
      case 32946:  // Deflate's former number
        return absl::OkStatus();
      default:
        return Unsupported(absl::StrCat("compression ", compression_));
    }
  }

  absl::Status CheckSamples() {
    page_.colours = static_cast<TiffColours>(photometric_);
    int colours = 1;
    bool bits_ok = page_.bits == 1 || page_.bits == 2 || page_.bits == 4 || page_.bits == 8;
    switch (page_.colours) {
      case TiffColours::kWhiteIsZero:
      case TiffColours::kBlackIsZero:
        bits_ok = bits_ok || page_.bits == 16;
        break;
      case TiffColours::kPalette:
        break;
      case TiffColours::kRgb:
      case TiffColours::kCmyk:
        colours = page_.colours == TiffColours::kRgb ? 3 : 4;
        bits_ok = page_.bits == 8 || page_.bits == 16;
        break;
      case TiffColours::kYcbcr:
        colours = 3;
        bits_ok = page_.bits == 8;
        if (!page_.is_jpeg) return Unsupported("YCbCr colours outside of JPEG");
        break;
      default:
        return Unsupported(absl::StrCat("colours of kind ", photometric_));
    }
    if (!bits_ok) return Unsupported(absl::StrCat(page_.bits, " bits a sample"));
    if (page_.is_jpeg && page_.bits != 8) return Unsupported("JPEG of other than 8 bits");
    if (page_.samples < colours || page_.samples > 6) {
      return Unsupported(absl::StrCat(page_.samples, " samples a pixel"));
    }
    const bool extra = page_.samples > colours;
    if (extra && page_.bits < 8) return Unsupported("transparency of fewer than 8 bits");
    if (extra && page_.colours != TiffColours::kCmyk) {
      if (extra_samples_ == 0 || extra_ == 2 || extra_ == 999) page_.alpha = TiffAlpha::kStraight;
      if (extra_samples_ != 0 && extra_ == 1) page_.alpha = TiffAlpha::kPremultiplied;
    }
    return absl::OkStatus();
  }

  absl::Status CheckBlocks() {
    page_.tiled = tile_width_ != 0 || tile_height_ != 0;
    page_.block_width = page_.tiled ? tile_width_ : page_.width;
    page_.block_height =
        page_.tiled ? tile_height_ : std::min<int64_t>(rows_per_strip_, page_.height);
    if (page_.block_width == 0 || page_.block_height == 0) return Corrupt("its strips' size");
    // A tile may be larger than the picture, but not by far.
    if (page_.block_width > page_.width + 4096 || page_.block_height > page_.height + 4096) {
      return Corrupt("its tiles' size");
    }
    // TIFF 6.0, section 15. Each tile costs time, however small it is.
    if (page_.tiled && (page_.block_width % 16 != 0 || page_.block_height % 16 != 0)) {
      return Unsupported(
          absl::StrCat("tiles of ", page_.block_width, " x ", page_.block_height, " pixels"));
    }
    const auto parts = [](int64_t side, int64_t block) { return (side + block - 1) / block; };
    page_.blocks = parts(page_.width, page_.block_width) * parts(page_.height, page_.block_height) *
                   (page_.planes ? page_.samples : 1);
    const auto blocks = static_cast<size_t>(page_.blocks);
    if (offsets_.count < blocks || counts_.count < blocks || offsets_.each > 4 ||
        counts_.each > 4) {
      return Corrupt("its strips' places");
    }
    uint64_t total = 0;
    for (size_t i = 0; i < blocks; ++i) {
      const uint64_t count = Number(counts_, i);
      if (Number(offsets_, i) + count > file_.size()) return Truncated();
      total += count;
    }
    // Blocks may share bytes, but libtiff reads and decodes those once for each block.
    if (total > file_.size() + kSharedBytes) return Corrupt("its strips share their bytes");
    return absl::OkStatus();
  }

  absl::Status CheckJpegs() {
    ImageLimits left = limits_;
    for (size_t i = 0; i < static_cast<size_t>(page_.blocks); ++i) {
      FOVEA_ASSIGN_OR_RETURN(
          const ImageInfo jpeg,
          ProbeJpegPart(file_.subspan(Number(offsets_, i), Number(counts_, i)), left));
      // libtiff only warns of a JPEG that leaves a part of its block out.
      const TiffPage::Area area = page_.AreaOf(static_cast<int64_t>(i));
      if (jpeg.width < area.width || jpeg.height < area.height) {
        return Corrupt("a JPEG smaller than its strip");
      }
      left.max_jpeg_scan_pixels -= jpeg.scans * jpeg.pixels();
      page_.jpeg_coefficients = std::max(page_.jpeg_coefficients, jpeg.coefficients);
    }
    return absl::OkStatus();
  }

  const Bytes file_;
  const ImageLimits& limits_;
  const bool big_;
  std::bitset<65'536> seen_;  // tags
  TiffPage page_;
  uint32_t compression_ = 1, photometric_ = UINT32_MAX, rows_per_strip_ = UINT32_MAX;
  uint32_t tile_width_ = 0, tile_height_ = 0, extra_ = 0;
  size_t extra_samples_ = 0;
  Values offsets_, counts_;
};

}  // namespace

TiffPage::Area TiffPage::AreaOf(int64_t block) const {
  const int64_t across = (width + block_width - 1) / block_width;
  const int64_t in_plane = block % blocks_of_plane();
  const int64_t left = in_plane % across * block_width, top = in_plane / across * block_height;
  return {left, top, std::min(block_width, width - left), std::min(block_height, height - top)};
}

absl::StatusOr<TiffPage> ReadTiffPage(Bytes file, const ImageLimits& limits) {
  return Directory(file, limits).Read();
}

}  // namespace fovea
