#include "tests/server/imaging/image_files.h"

#include <turbojpeg.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "server/imaging/decode.h"
#include "server/imaging/orient.h"
#include "server/imaging/probe.h"

namespace fovea::testing {
namespace {

const std::filesystem::path kData = FOVEA_IMAGING_DATA;

}  // namespace

File ReadImage(std::string_view name) {
  std::ifstream stream(kData / name, std::ios::binary | std::ios::ate);
  FOVEA_CHECK(stream.good());
  File file(static_cast<size_t>(stream.tellg()));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(file.data()), static_cast<std::streamsize>(file.size()));
  FOVEA_CHECK(stream.good());
  return file;
}

std::vector<uint8_t> ReadPixels(std::string_view name) {
  const File file = ReadImage(std::string(name) + ".rgb");
  std::vector<uint8_t> pixels(file.size());
  std::memcpy(pixels.data(), file.data(), file.size());
  return pixels;
}

std::vector<std::string> ImageNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    if (entry.path().extension() == ".rgb") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

File FromText(std::string_view text) {
  File file(text.size());
  std::memcpy(file.data(), text.data(), text.size());
  return file;
}

File operator+(File left, const File& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

File Big16(uint32_t value) { return {std::byte(value >> 8), std::byte(value)}; }

File Big32(uint32_t value) { return Big16(value >> 16) + Big16(value); }

File Little32(uint32_t value) {
  return {std::byte(value), std::byte(value >> 8), std::byte(value >> 16), std::byte(value >> 24)};
}

absl::StatusOr<RgbImage> Decode(const File& file) {
  FOVEA_ASSIGN_OR_RETURN(const ImageInfo info, ProbeImage(file, {}));
  return DecodeImage(file, info);
}

File PngSignature() { return FromText("\x89PNG\r\n\x1a\n"); }

File PngChunk(std::string_view type, const File& data) {
  const File body = FromText(type) + data;
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size());
  return Big32(static_cast<uint32_t>(data.size())) + body + Big32(static_cast<uint32_t>(sum));
}

File PngHeader(uint32_t width, uint32_t height, int bit_depth, int color_type) {
  const File tail = {std::byte(bit_depth), std::byte(color_type), std::byte(0), std::byte(0),
                     std::byte(0)};
  return PngChunk("IHDR", Big32(width) + Big32(height) + tail);
}

File Deflate(const File& data) {
  uLongf size = compressBound(data.size());
  File out(size);
  FOVEA_CHECK(compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                        reinterpret_cast<const Bytef*>(data.data()), data.size(), 9) == Z_OK);
  out.resize(size);
  return out;
}

File JpegSegment(uint8_t marker, const File& data) {
  return File{std::byte(0xff), std::byte(marker)} + Big16(static_cast<uint32_t>(data.size() + 2)) +
         data;
}

File TurnedJpeg(const RgbImage& upright, int orientation) {
  // A quarter turn is undone by the other one, everything else by itself.
  const int back = orientation == 6 ? 8 : orientation == 8 ? 6 : orientation;
  const RgbImage stored = Upright(upright, back);
  const tjhandle handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long bytes = 0;
  FOVEA_CHECK(tjCompress2(handle, stored.pixels.get(), stored.width, 0, stored.height, TJPF_RGB,
                          &out, &bytes, TJSAMP_444, 100, 0) == 0);
  const auto* first = reinterpret_cast<const std::byte*>(out);
  File plain;
  plain.assign(first, first + bytes);
  tjFree(out);
  tjDestroy(handle);
  // A directory of one entry: the orientation, a SHORT.
  const File exif = FromText(std::string_view("Exif\0\0MM\0*\0\0\0\x08\0\x01", 16)) +
                    Big16(0x0112) + Big16(3) + Big32(1) + Big16(orientation) + Big16(0) + Big32(0);
  File start, rest;
  start.assign(plain.begin(), plain.begin() + 2);
  rest.assign(plain.begin() + 2, plain.end());
  return start + JpegSegment(0xe1, exif) + rest;
}

File WebpChunk(std::string_view type, const File& data) {
  const File padding(data.size() % 2);
  return FromText(type) + Little32(static_cast<uint32_t>(data.size())) + data + padding;
}

File WebpFile(const File& chunks) {
  return FromText("RIFF") + Little32(static_cast<uint32_t>(chunks.size() + 4)) + FromText("WEBP") +
         chunks;
}

File WebpOfManyPrefixCodes(uint32_t side) {
  File bits;
  int used = 8;  // of the last byte
  const auto write = [&](uint32_t value, int count) {
    for (int i = 0; i < count; ++i) {
      if (used == 8) {
        bits.push_back(std::byte(0));
        used = 0;
      }
      bits.back() |= std::byte((value >> i & 1) << used++);
    }
  };
  // Prefix codes of the symbol 0 alone, and of the bytes, 8 bits each (RFC 9649, section 6.2.1).
  const auto one_symbol = [&] { write(0b0001, 4); };
  const auto bytes = [&](int alphabet) {
    write(0, 1);  // a normal code
    write(8, 4);  // of the lengths of codes, 12 are given: 0 and 8 have one bit, the others none
    for (int i = 0; i < 12; ++i) write(i == 2 || i == 11 ? 1 : 0, 3);
    write(0, 1);  // the lengths of all symbols follow
    for (int symbol = 0; symbol < alphabet; ++symbol) write(symbol < 256 ? 1 : 0, 1);
  };
  const auto byte = [&](uint32_t value) {
    for (int bit = 7; bit >= 0; --bit) write(value >> bit & 1, 1);
  };
  write(0x2f, 8);
  write(side - 1, 14);
  write(side - 1, 14);
  write(0, 1 + 3 + 1);  // opaque, version 0, no transform
  write(1, 1);          // a colour cache of 11 bits
  write(11, 4);
  write(1, 1);  // a picture says which block has which codes, one pixel for 4 x 4
  write(0, 3);
  write(0, 1);  // that one has no colour cache; its green and red are the number
  bytes(256 + 24);
  bytes(256);
  for (int i = 0; i < 3; ++i) one_symbol();
  const uint32_t blocks = side * side / 16;
  for (uint32_t block = 0; block < blocks; ++block) {
    byte(block & 0xff);
    byte(block >> 8);
  }
  for (uint32_t code = 0; code < 5 * blocks; ++code) one_symbol();
  // The pixels themselves need no bits.
  bits.resize(bits.size() + 16);
  return WebpFile(WebpChunk("VP8L", bits));
}

TiffTag Tag(uint32_t tag, uint32_t number) { return {tag, 4, 1, Big32(number)}; }

File TiffFile(const File& data, const std::vector<TiffTag>& tags) {
  const auto directory = static_cast<uint32_t>(8 + data.size());
  const auto behind = static_cast<uint32_t>(directory + 2 + 12 * tags.size() + 4);
  File entries, values;
  for (const TiffTag& tag : tags) {
    File value = tag.values;
    if (value.size() > 4) {
      value = Big32(static_cast<uint32_t>(behind + values.size()));
      values.insert(values.end(), tag.values.begin(), tag.values.end());
    }
    value.resize(4);
    entries = std::move(entries) + Big16(tag.tag) + Big16(tag.type) + Big32(tag.count) + value;
  }
  return FromText(std::string_view("MM\0*", 4)) + Big32(directory) + data +
         Big16(static_cast<uint32_t>(tags.size())) + entries + Big32(0) + values;
}

File AvifBox(std::string_view type, const File& contents) {
  return Big32(static_cast<uint32_t>(contents.size() + 8)) + FromText(type) + contents;
}

File AvifStill(uint32_t width, uint32_t height, const File& av1,
               const std::vector<AvifExtent>& extents, const File& tables) {
  const File version = Big32(0);
  const File name = File(1);
  const auto meta = [&](uint32_t data_at) {
    File places;
    for (const AvifExtent& extent : extents) {
      places = std::move(places) + Big32(data_at + extent.offset) + Big32(extent.length);
    }
    const File location = version + Big16(0x4400) + Big16(1) + Big16(1) + Big16(0) +
                          Big16(static_cast<uint32_t>(extents.size())) + places;
    const File item = Big32(2 << 24) + Big16(1) + Big16(0) + FromText("av01") + name;
    const File configuration = Big32(0x81000c00);  // 8 bits, 4:2:0
    const File properties =
        AvifBox("ispe", version + Big32(width) + Big32(height)) + AvifBox("av1C", configuration);
    const File associations =
        version + Big32(1) + Big16(1) + File{std::byte(2), std::byte(1), std::byte(0x82)};
    return AvifBox(
        "meta", version + AvifBox("hdlr", version + Big32(0) + FromText("pict") + File(12) + name) +
                    AvifBox("pitm", version + Big16(1)) + AvifBox("iloc", location) +
                    AvifBox("iinf", version + Big16(1) + AvifBox("infe", item)) +
                    AvifBox("iprp", AvifBox("ipco", properties) + AvifBox("ipma", associations)) +
                    tables);
  };
  const File type = AvifBox("ftyp", FromText("avif") + Big32(0) + FromText("avifmif1"));
  const auto data_at = static_cast<uint32_t>(type.size() + meta(0).size() + 8);
  return type + meta(data_at) + AvifBox("mdat", av1);
}

namespace {

// Writes bits, the highest of each number first.
struct BitFile {
  File bytes;
  int free = 0;  // of the last byte

  BitFile& Put(uint32_t value, int count) {
    for (int bit = count - 1; bit >= 0; --bit) {
      if (free == 0) {
        bytes.push_back(std::byte(0));
        free = 8;
      }
      bytes.back() |= std::byte((value >> bit & 1) << --free);
    }
    return *this;
  }
};

// A sequence header: 8 bits, 4:2:0, blocks of 64 x 64, and nothing that is optional.
File Av1Sequence(uint32_t width, uint32_t height) {
  BitFile bits;
  bits.Put(0, 3 + 1 + 1);           // profile 0, no still picture, not its short header
  bits.Put(0, 1 + 1 + 5 + 12 + 5);  // no timing or delay; one operating point of level 2.0
  bits.Put(15, 4).Put(15, 4).Put(width - 1, 16).Put(height - 1, 16);
  bits.Put(0, 1 + 1 + 1 + 1);      // no frame numbers, large blocks, filter-intra, intra edges
  bits.Put(0, 1 + 1 + 1 + 1 + 1);  // no inter-intra, masks, warps, dual filters, order hints
  bits.Put(0, 1 + 1);              // no tools for screen contents
  bits.Put(0, 1 + 1 + 1);          // no super-resolution, CDEF, restoration
  bits.Put(0, 1 + 1 + 1).Put(1, 1).Put(0, 2 + 1);  // 8 bits, with chroma, of full range
  bits.Put(0, 1).Put(1, 1);                        // no film grain; the end
  return bits.bytes;
}

// A key frame (number 0), or an inter frame without differences from it, of few bits a pixel.
File Av1Frame(uint32_t width, uint32_t height, int number, bool shown) {
  const bool key = number == 0;
  BitFile bits;
  bits.Put(0, 1).Put(key ? 0 : 1, 2).Put(shown, 1);
  if (!shown) bits.Put(0, 1);          // nor later
  if (!key || !shown) bits.Put(1, 1);  // error-resilient
  bits.Put(1, 1).Put(0, 1);            // probabilities stay; the sequence's size
  if (!key || !shown) bits.Put(key ? 0xff : 1 << number % 8, 8);  // is kept there
  if (!key) {
    for (int reference = 0; reference < 7; ++reference) bits.Put((number + 7) % 8, 3);
  }
  bits.Put(0, 1);                                // shown at that size
  if (!key) bits.Put(0, 1).Put(1, 1).Put(0, 1);  // precision, filters, motion modes
  bits.Put(1, 1);                                // tiles of one size: one
  if (width > 64) bits.Put(0, 1);
  if (height > 64) bits.Put(0, 1);
  bits.Put(100, 8).Put(0, 1 + 1 + 1 + 1);  // the quantiser
  bits.Put(0, 1 + 1);                      // no segments, no quantiser's changes
  bits.Put(0, 6 + 6 + 3 + 1);              // no loop filter
  bits.Put(0, 1);                          // the largest transforms
  if (!key) bits.Put(0, 1);                // one reference a block
  bits.Put(0, 1);                          // all transforms
  if (!key) bits.Put(0, 7);                // no global motion
  return bits.bytes + File(64);
}

}  // namespace

File Av1Unit(int type, const File& payload) {
  File unit = {std::byte(type << 3 | 2)};
  size_t length = payload.size();
  do {
    unit.push_back(std::byte((length & 0x7f) | (length >= 0x80 ? 0x80 : 0)));
    length >>= 7;
  } while (length > 0);
  return std::move(unit) + payload;
}

File Av1Frames(uint32_t width, uint32_t height, int hidden) {
  constexpr int kSequence = 1, kDelimiter = 2, kFrame = 6;
  File data = Av1Unit(kDelimiter, {}) + Av1Unit(kSequence, Av1Sequence(width, height));
  for (int number = 0; number <= hidden; ++number) {
    data = std::move(data) + Av1Unit(kFrame, Av1Frame(width, height, number, number == hidden));
  }
  return data;
}

}  // namespace fovea::testing
