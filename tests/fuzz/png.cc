// A PNG file, behind a byte. The checksum of each chunk is made right, or no change would get past
// it; where the byte is 0 they stay as they are.
#include <zlib.h>

#include "base/bytes.h"
#include "tests/fuzz/image_file.h"

namespace fovea {
namespace {

constexpr std::string_view kMagic = "\x89PNG\r\n\x1a\n";

void PutU32Big(uint32_t number, std::string* file, size_t at) {
  for (int byte = 0; byte < 4; ++byte) {
    (*file)[at + byte] = static_cast<char>(number >> (24 - 8 * byte));
  }
}

// Of each chunk that is whole: its length, type, data, checksum.
void MendChecksums(std::string* file) {
  for (size_t at = kMagic.size(); at + 12 <= file->size();) {
    const size_t length = U32Big(std::as_bytes(std::span(*file)), at);
    if (length > file->size() - at - 12) return;
    const auto* covered = reinterpret_cast<const unsigned char*>(file->data()) + at + 4;
    PutU32Big(static_cast<uint32_t>(crc32(0, covered, static_cast<uInt>(length + 4))), file,
              at + 8 + length);
    at += 12 + length;
  }
}

}  // namespace

FOVEA_FUZZ_TARGET(png, input) {
  const bool mend = input.TakeByte() != 0;
  std::string file(input.rest());
  if (mend) MendChecksums(&file);
  ProbeAndDecode(file, kMagic);
}

}  // namespace fovea
