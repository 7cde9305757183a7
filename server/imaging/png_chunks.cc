#include "server/imaging/png_chunks.h"

#include <zlib.h>

#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr size_t kAroundData = 12;  // length, type, checksum
constexpr uint32_t kMaxChunk = 0x7fffffff;

bool IsLetter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

}  // namespace

absl::StatusOr<PngChunk> ReadPngChunk(Bytes file, size_t at) {
  const Bytes rest = file.subspan(at);
  if (rest.size() < kAroundData) return Truncated();
  const uint32_t length = U32Big(rest, 0);
  if (length > kMaxChunk) return Corrupt("a chunk's length");
  const std::string_view type(reinterpret_cast<const char*>(rest.data()) + 4, 4);
  for (const char letter : type) {
    if (!IsLetter(letter)) return Corrupt("a chunk's type");
  }
  if (rest.size() - kAroundData < length) return Truncated();
  return PngChunk{
      .type = type, .data = rest.subspan(8, length), .whole = rest.first(length + kAroundData)};
}

bool PngChecksumMatches(const PngChunk& chunk) {
  const Bytes summed = chunk.whole.subspan(4, chunk.data.size() + 4);
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(summed.data()), summed.size());
  return sum == U32Big(chunk.whole, chunk.data.size() + 8);
}

std::vector<std::byte> MakePngChunk(std::string_view type, Bytes data) {
  std::vector<std::byte> chunk;
  const auto append32 = [&](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) chunk.push_back(std::byte(value >> shift));
  };
  append32(static_cast<uint32_t>(data.size()));
  const auto letters = std::as_bytes(std::span(type));
  chunk.insert(chunk.end(), letters.begin(), letters.end());
  chunk.insert(chunk.end(), data.begin(), data.end());
  const auto* summed = reinterpret_cast<const Bytef*>(chunk.data()) + 4;
  append32(static_cast<uint32_t>(crc32_z(0, summed, data.size() + 4)));
  return chunk;
}

}  // namespace fovea
