// The images of data/, and images made on the spot that no honest program writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/imaging/image.h"

namespace fovea::testing {

// A type of this namespace, so that + is found.
struct File : std::vector<std::byte> {
  using std::vector<std::byte>::vector;
};

// Ends the process where there is no such file.
File ReadImage(std::string_view name);
std::vector<uint8_t> ReadPixels(std::string_view name);  // of NAME.rgb
// Every image of data/ that has pixels, by name.
std::vector<std::string> ImageNames();

File FromText(std::string_view text);
File operator+(File left, const File& right);
// A number as it lies in a file.
File Big16(uint32_t value);
File Big32(uint32_t value);
File Little32(uint32_t value);

// Probe and decode under the default limits.
absl::StatusOr<RgbImage> Decode(const File& file);

// PNG: the parts of a file, with right checksums.
File PngSignature();
File PngChunk(std::string_view type, const File& data);
File PngHeader(uint32_t width, uint32_t height, int bit_depth, int color_type);
File Deflate(const File& data);

// JPEG: a segment with its marker and length.
File JpegSegment(uint8_t marker, const File& data);
// `upright` as a camera stores it that was held so: at quality 100, its chroma not subsampled.
File TurnedJpeg(const RgbImage& upright, int orientation);

// A WebP chunk, and the file around chunks.
File WebpChunk(std::string_view type, const File& data);
File WebpFile(const File& chunks);
// A sound lossless picture of `side` x `side` pixels, a multiple of 4, where every block of 4 x 4
// has prefix codes of its own: 36 bits a block in the file, 20 KB in libwebp.
File WebpOfManyPrefixCodes(uint32_t side);

// TIFF, big-endian: an entry of a directory. Values of more than four bytes are put behind it; four
// bytes or fewer lie in it, whatever `type` and `count` say.
struct TiffTag {
  uint32_t tag, type, count;
  File values;
};
TiffTag Tag(uint32_t tag, uint32_t number);  // a LONG
// `data` begins at byte 8; the directory follows it.
File TiffFile(const File& data, const std::vector<TiffTag>& tags);

// AVIF: a box, and a still picture of these sides by its boxes. `extents`: offsets into `av1` and
// lengths, which the picture's data are joined from; `tables`: further boxes of the meta box.
File AvifBox(std::string_view type, const File& contents);
struct AvifExtent {
  uint32_t offset, length;
};
File AvifStill(uint32_t width, uint32_t height, const File& av1,
               const std::vector<AvifExtent>& extents, const File& tables = {});
// AV1 data (AV1 bitstream specification, sections 5.3 to 5.11) of a frame that is shown behind
// `hidden` ones that are not. Each is kept as a reference for another.
File Av1Frames(uint32_t width, uint32_t height, int hidden);
// An OBU with its length.
File Av1Unit(int type, const File& payload);

}  // namespace fovea::testing
