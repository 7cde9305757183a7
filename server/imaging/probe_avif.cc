// AVIF (ISO/IEC 23008-12, AV1 image file format): libavif reads the boxes and none of the pixels.
#include <avif/avif.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/imaging/avif_decoder.h"
#include "server/imaging/avif_memory.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr size_t kBoxHeaderBytes = 8;

// libavif turns the six bytes of an item in a table into up to 1.4 KB, and searches all items for
// each of them. A picture's tables take about 300 bytes, a grid's 60 for each cell.
constexpr int64_t kMostTableBytes = 32 << 10;
constexpr int64_t kMostPeekedTableBytes = 2 << 10;  // for PeekAvif, on the request's own thread
constexpr int64_t kTableExpansion = 256;
// Encoders write equal cells of a grid once, so items may share bytes; each is read on its own.
constexpr uint64_t kSharedBytes = 32 << 20;

// What is known of a file's boxes before libavif sees them.
struct Boxes {
  int64_t table_bytes = 0;   // that libavif turns into structures
  int64_t copied_bytes = 0;  // that it copies
  uint64_t item_bytes = 0;   // of all items, as often as they are located
  int64_t joined_bytes = 0;  // of items in several extents, which libavif copies into one
  int coded_items = 0;       // at most
  bool may_be_grid = false;
  bool is_sequence = false;
  bool hold_pixels = false;
};

// Reads numbers of a table one after the other; what lies past its end is 0.
class TableReader {
 public:
  explicit TableReader(Bytes table) : table_(table) {}

  // An unsigned number of 0 to 8 bytes.
  uint64_t Take(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value = value << 8 | (at_ < table_.size() ? U8(table_, at_) : 0);
      ++at_;
    }
    return value;
  }
  bool PastEnd() const { return at_ > table_.size(); }

 private:
  const Bytes table_;
  size_t at_ = 0;
};

// Adds the items that an iloc box locates in a file of `file_bytes` (ISO/IEC 14496-12, 8.11.3).
// libavif bounds each item by the file, not how many share its bytes, and takes any number of
// extents that have no width in the table.
absl::Status AddLocations(Bytes iloc, size_t file_bytes, Boxes* counted) {
  TableReader reader(iloc);
  const uint64_t version = reader.Take(1);
  reader.Take(3);  // flags
  const uint64_t offset_and_length = reader.Take(1), base_and_index = reader.Take(1);
  const auto offset_width = static_cast<int>(offset_and_length >> 4);
  const auto length_width = static_cast<int>(offset_and_length & 15);
  const auto base_width = static_cast<int>(base_and_index >> 4);
  const int index_width = version == 0 ? 0 : static_cast<int>(base_and_index & 15);
  for (const int width : {offset_width, length_width, base_width}) {
    if (width != 0 && width != 4 && width != 8) return Corrupt("its items' locations");
  }
  const uint64_t items = reader.Take(version < 2 ? 2 : 4);
  if (items == 0) return absl::OkStatus();
  if (version > 2 || length_width == 0 || index_width != 0) return Corrupt("its items' locations");
  for (uint64_t item = 0; item < items; ++item) {
    reader.Take(version < 2 ? 2 : 4);         // its number
    reader.Take((version == 0 ? 0 : 2) + 2);  // how it is stored; of which file
    reader.Take(base_width);
    const uint64_t extents = reader.Take(2);
    uint64_t item_bytes = 0;
    for (uint64_t extent = 0; extent < extents; ++extent) {
      reader.Take(offset_width);
      const uint64_t length = reader.Take(length_width);
      if (reader.PastEnd()) return Truncated();
      if (length > file_bytes) return Truncated();
      item_bytes += length;
    }
    if (reader.PastEnd()) return Truncated();
    counted->item_bytes += item_bytes;
    if (counted->item_bytes > file_bytes + kSharedBytes) return Corrupt("its items share bytes");
    if (extents > 1) counted->joined_bytes += static_cast<int64_t>(item_bytes);
    if (counted->joined_bytes > static_cast<int64_t>(file_bytes)) {
      return Corrupt("its items' extents");
    }
  }
  return absl::OkStatus();
}

// Adds to `counted` the bytes of `boxes` that libavif turns into structures, and those that it
// copies; `boxes` lie in a file of `file_bytes`. Anything malformed counts as a table.
absl::Status CountTables(Bytes boxes, int depth, size_t file_bytes, Boxes* counted) {
  struct Container {
    std::string_view type;
    size_t before;  // bytes before the boxes in it
  };
  constexpr Container kContainers[] = {{"meta", 4}, {"iprp", 0}, {"ipco", 0}, {"moov", 0},
                                       {"trak", 0}, {"mdia", 0}, {"minf", 0}, {"stbl", 0},
                                       {"stsd", 8}, {"av01", 78}};
  constexpr std::string_view kCopied[] = {"colr", "idat", "stsz", "stts", "stss"};
  constexpr int kMostDepth = 8;
  size_t at = 0;
  while (boxes.size() - at >= kBoxHeaderBytes) {
    const uint64_t size = U32Big(boxes, at);
    if (size == 1) return Corrupt("a box's length");  // 64 bits
    if (size < kBoxHeaderBytes || size > boxes.size() - at) break;
    const Bytes contents = boxes.subspan(at + kBoxHeaderBytes, size - kBoxHeaderBytes);
    const auto is = [&](std::string_view type) { return StartsWith(boxes, at + 4, type); };
    const auto* container = std::ranges::find_if(kContainers, is, &Container::type);
    counted->table_bytes += static_cast<int64_t>(kBoxHeaderBytes);
    if (std::ranges::any_of(kCopied, is)) {
      counted->copied_bytes += static_cast<int64_t>(contents.size());
    } else if (container != std::end(kContainers) && contents.size() >= container->before &&
               depth < kMostDepth) {
      counted->table_bytes += static_cast<int64_t>(container->before);
      FOVEA_RETURN_IF_ERROR(
          CountTables(contents.subspan(container->before), depth + 1, file_bytes, counted));
    } else {
      if (is("iloc")) FOVEA_RETURN_IF_ERROR(AddLocations(contents, file_bytes, counted));
      counted->table_bytes += static_cast<int64_t>(contents.size());
    }
    at += size;
  }
  counted->table_bytes += static_cast<int64_t>(boxes.size() - at);
  return absl::OkStatus();
}

// Checks that the file type box names AVIF as a format, whatever comes first, and that libavif
// makes of the other boxes no more than metadata may take.
absl::Status CheckBoxes(Bytes file, const ImageLimits& limits, int64_t most_table_bytes,
                        Boxes* boxes) {
  int64_t metadata_left = limits.max_metadata_bytes;
  size_t at = 0;
  while (file.size() - at >= kBoxHeaderBytes) {
    const uint64_t size = U32Big(file, at);
    uint64_t whole = size == 0 ? file.size() - at : size;  // 0: to the end
    if (size == 1) {                                       // a length of 64 bits follows
      if (!StartsWith(file, at + 4, "mdat")) return Corrupt("a box's length");
      if (file.size() - at < 2 * kBoxHeaderBytes) return Truncated();
      whole = uint64_t{U32Big(file, at + 8)} << 32 | U32Big(file, at + 12);
    }
    if (whole < kBoxHeaderBytes) return Corrupt("a box's length");
    if (whole > file.size() - at) return Truncated();
    if (StartsWith(file, at + 4, "ftyp")) {
      bool is_avif = false;
      for (size_t brand = at + 8; brand + 4 <= at + whole; brand += 4) {
        is_avif |= StartsWith(file, brand, "avif") || StartsWith(file, brand, "avis");
      }
      if (!is_avif) return UnknownKind(file);
    } else if (StartsWith(file, at + 4, "mdat")) {
      boxes->hold_pixels = true;
    } else if (!StartsWith(file, at + 4, "free")) {
      metadata_left -= static_cast<int64_t>(whole);
      if (metadata_left < 0) return MetadataTooLarge(limits);
      if (StartsWith(file, at + 4, "meta") || StartsWith(file, at + 4, "moov")) {
        if (size == 0) return Corrupt("a box's length");
        boxes->is_sequence |= StartsWith(file, at + 4, "moov");
        FOVEA_RETURN_IF_ERROR(CountTables(file.subspan(at, whole), 0, file.size(), boxes));
        const std::string_view box(reinterpret_cast<const char*>(file.data()) + at, whole);
        boxes->may_be_grid |= box.find("grid") != box.npos;  // an item's type
        boxes->hold_pixels |= box.find("idat") != box.npos;
        for (size_t item = box.find("av01"); item != box.npos; item = box.find("av01", item + 4)) {
          ++boxes->coded_items;
        }
      }
    }
    at += whole;
  }
  // libavif would report an incomplete box as damage.
  if (at < file.size() && !boxes->hold_pixels) return Truncated();
  if (boxes->table_bytes > most_table_bytes) {
    return InvalidArgument("image.metadata_too_large",
                           absl::StrCat("the image's tables have ", boxes->table_bytes,
                                        " bytes; at most ", most_table_bytes, " are read"));
  }
  return absl::OkStatus();
}

// The EXIF orientation equivalent to the file's own rotation and mirroring.
int Orientation(const avifImage& image) {
  const int quarters = (image.transformFlags & AVIF_TRANSFORM_IROT) != 0 ? image.irot.angle : 0;
  constexpr int kTurned[] = {1, 8, 3, 6};  // counter-clockwise
  if ((image.transformFlags & AVIF_TRANSFORM_IMIR) == 0) return kTurned[quarters];
  // Mirrored after it was turned: mode 0 swaps top and bottom, 1 left and right.
  constexpr int kMirrored[2][4] = {{4, 5, 2, 7}, {2, 7, 4, 5}};
  return kMirrored[image.imir.mode & 1][quarters];
}

// Number of frames in AV1 data (AV1 bitstream specification, section 5.3). nullopt if they are not
// a sequence of units with lengths.
std::optional<int> CountFrames(Bytes data) {
  constexpr int kFrameHeader = 3, kFrame = 6;
  int frames = 0;
  for (size_t at = 0; at < data.size();) {
    const uint8_t header = U8(data, at++);
    const int type = header >> 3 & 15;
    if ((header & 0x81) != 0 || (header & 2) == 0) return std::nullopt;  // reserved; no length
    if ((header & 4) != 0) ++at;                                         // layers
    uint64_t length = 0;
    for (int i = 0;; ++i) {
      if (at >= data.size() || i == 4) return std::nullopt;
      const uint8_t byte = U8(data, at++);
      length |= uint64_t{byte & 0x7fu} << 7 * i;
      if ((byte & 0x80) == 0) break;
    }
    if (length > data.size() - at) return std::nullopt;
    at += length;
    frames += type == kFrameHeader || type == kFrame;
  }
  return frames;
}

// Memory of what libavif makes of the boxes: structures, copies, lists of up to 20,000 frames of
// colour and alpha.
int64_t BoxBytes(const Boxes& boxes) {
  constexpr int64_t kGrowth = 3;  // of an array that is copied as it grows
  constexpr int64_t kLeast = 256 * limits::kKiB, kFrameLists = 6 * limits::kMiB;
  return kLeast + (boxes.is_sequence ? kFrameLists : 0) + kTableExpansion * boxes.table_bytes +
         kGrowth * boxes.copied_bytes + boxes.joined_bytes;
}

// Memory of libavif and dav1d besides the RGB: structures and copies of the boxes; dav1d's
// contexts; frames in whole blocks with their tables, whatever chroma subsampling the file
// declares, and as much again for film grain. AV1 data with several frames, or in the cells of a
// grid, may keep up to eight more frames, and one more holds the assembled grid. decode_avif.cc
// holds dav1d to this.
int64_t BufferBytes(const ImageInfo& info, const Boxes& boxes, bool one_frame) {
  const auto padded = [](int64_t side) { return (side + 255) / 128 * 128; };
  const int64_t sample_bytes = info.bit_depth > 8 ? 2 : 1;
  const int64_t frame = padded(info.width) * padded(info.height) * (3 * sample_bytes + 1);
  const int64_t codecs = info.components == 4 ? 2 : 1;
  const int64_t contexts =
      boxes.may_be_grid ? std::max<int64_t>(codecs, boxes.coded_items) : codecs;
  return BoxBytes(boxes) + contexts * kAvifContextBytes + codecs * frame * (one_frame ? 2 : 11) +
         AvifColourBytes(info);
}

// Throws std::bad_alloc.
absl::StatusOr<ImageInfo> Probe(Bytes encoded, const ImageLimits& limits,
                                int64_t most_table_bytes) {
  Boxes boxes;
  FOVEA_RETURN_IF_ERROR(CheckBoxes(encoded, limits, most_table_bytes, &boxes));
  const AvifMemory memory(BoxBytes(boxes), /*most_pixels=*/0);
  const AvifDecoder decoder = OpenAvif(encoded, AVIF_DEFAULT_IMAGE_SIZE_LIMIT);
  const avifResult result = avifDecoderParse(decoder.get());
  switch (result) {
    case AVIF_RESULT_OK:
      break;
    case AVIF_RESULT_TRUNCATED_DATA:
    case AVIF_RESULT_WAITING_ON_IO:
      return Truncated();
    default:
      return boxes.hold_pixels ? Corrupt("its boxes") : Truncated();
  }
  const avifImage& image = *decoder->image;
  FOVEA_RETURN_IF_ERROR(CheckSize(image.width, image.height, limits));
  avifExtent extent = {};
  if (avifDecoderNthImageMaxExtent(decoder.get(), 0, &extent) != AVIF_RESULT_OK) {
    return Corrupt("its boxes");
  }
  if (extent.offset > encoded.size() || extent.size > encoded.size() - extent.offset) {
    return Truncated();
  }
  ImageInfo info{.format = ImageFormat::kAvif,
                 .width = static_cast<int>(image.width),
                 .height = static_cast<int>(image.height),
                 .orientation = Orientation(image),
                 .components = decoder->alphaPresent ? 4 : 3,
                 .bit_depth = static_cast<int>(image.depth)};
  const std::optional<int> frames = CountFrames(encoded.subspan(extent.offset, extent.size));
  info.buffer_bytes = BufferBytes(
      info, boxes, !boxes.may_be_grid && frames && *frames <= (decoder->alphaPresent ? 2 : 1));
  info.encoded_bytes = static_cast<int64_t>(encoded.size());
  return info;
}

absl::StatusOr<ImageInfo> ProbeWithin(Bytes encoded, const ImageLimits& limits,
                                      int64_t most_table_bytes) {
  absl::StatusOr<ImageInfo> info;
  FOVEA_RETURN_IF_ERROR(RunCodec([&]() -> std::string {
    try {
      info = Probe(encoded, limits, most_table_bytes);
    } catch (const AvifMemoryExceeded&) {
      info = InvalidArgument("image.metadata_too_large",
                             "the image's boxes take more memory than those of a picture");
    }
    return {};
  }));
  return info;
}

}  // namespace

absl::StatusOr<ImageInfo> ProbeAvif(Bytes encoded, const ImageLimits& limits) {
  return ProbeWithin(encoded, limits, kMostTableBytes);
}

// Small files only: libavif needs the whole file.
std::optional<ImageInfo> PeekAvif(Bytes beginning) {
  const absl::StatusOr<ImageInfo> info = ProbeWithin(beginning, {}, kMostPeekedTableBytes);
  return info.ok() ? std::optional(*info) : std::nullopt;
}

}  // namespace fovea
