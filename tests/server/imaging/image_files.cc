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

}  // namespace fovea::testing
