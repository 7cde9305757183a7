#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"

namespace fovea {
namespace {

int Read(GifFileType* gif, GifByteType* to, int size) {
  auto& unread = *static_cast<Bytes*>(gif->UserData);
  const size_t bytes = std::min(unread.size(), static_cast<size_t>(size));
  std::memcpy(to, unread.data(), bytes);
  unread = unread.subspan(bytes);
  return static_cast<int>(bytes);
}

struct Close {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

std::string Failure(int error) {
  const char* words = GifErrorString(error);
  return absl::StrCat("giflib: ", words != nullptr ? words : "?");
}

// Reads up to the first image's pixels. `transparent` becomes the transparent number, or -1.
std::string ReadHeader(GifFileType* gif, int* transparent) {
  for (;;) {
    GifRecordType kind;
    if (DGifGetRecordType(gif, &kind) == GIF_ERROR) return Failure(gif->Error);
    if (kind == IMAGE_DESC_RECORD_TYPE) {
      return DGifGetImageDesc(gif) == GIF_ERROR ? Failure(gif->Error) : std::string();
    }
    if (kind != EXTENSION_RECORD_TYPE) return "giflib: no image";
    int code = 0;
    GifByteType* block = nullptr;  // its length, then its bytes
    if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return Failure(gif->Error);
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
        DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK &&
        control.TransparentColor != NO_TRANSPARENT_COLOR) {
      *transparent = control.TransparentColor;
    }
    while (block != nullptr) {
      if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return Failure(gif->Error);
    }
  }
}

// The colour of each number. Those missing from the table are black; without a table all are grey.
std::array<Rgb, 256> Colours(const ColorMapObject* table, int transparent, const Rgb& background) {
  std::array<Rgb, 256> colours = {};
  for (int i = 0; i < 256; ++i) {
    if (table == nullptr) {
      colours[i].fill(static_cast<uint8_t>(i));
    } else if (i < table->ColorCount) {
      const GifColorType& colour = table->Colors[i];
      colours[i] = {colour.Red, colour.Green, colour.Blue};
    }
  }
  if (transparent >= 0) colours[transparent] = background;
  return colours;
}

std::string ReadRows(GifFileType* gif, const std::array<Rgb, 256>& colours, RgbImage& image) {
  struct Pass {
    int first, step;
  };
  static constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, kPlain[] = {{0, 1}};
  const GifImageDesc& frame = gif->Image;
  const auto numbers = std::make_unique_for_overwrite<uint8_t[]>(frame.Width);
  for (const Pass& pass : frame.Interlace ? std::span<const Pass>(kInterlaced) : kPlain) {
    for (int y = pass.first; y < frame.Height; y += pass.step) {
      if (DGifGetLine(gif, numbers.get(), frame.Width) == GIF_ERROR) return Failure(gif->Error);
      uint8_t* to =
          image.pixels.get() + 3 * (size_t{1} * (frame.Top + y) * image.width + frame.Left);
      for (int x = 0; x < frame.Width; ++x, to += 3) {
        std::memcpy(to, colours[numbers[x]].data(), 3);
      }
    }
  }
  return {};
}

std::string Decode(Bytes encoded, const ImageInfo& info, const Rgb& background, RgbImage& image) {
  int error = 0;
  const std::unique_ptr<GifFileType, Close> gif(DGifOpen(&encoded, Read, &error));
  if (gif == nullptr) {
    if (error == D_GIF_ERR_NOT_ENOUGH_MEM) throw std::bad_alloc();
    return Failure(error);
  }
  int transparent = -1;
  std::string failure = ReadHeader(gif.get(), &transparent);
  if (!failure.empty()) return failure;
  const GifImageDesc& frame = gif->Image;
  if (frame.Left + frame.Width > info.width || frame.Top + frame.Height > info.height) {
    return "giflib read another size than the probe";
  }
  const ColorMapObject* table = frame.ColorMap != nullptr ? frame.ColorMap : gif->SColorMap;
  const std::array<Rgb, 256> colours = Colours(table, transparent, background);
  // As in Pillow: the rest of the screen is transparent, or of the first colour.
  image = RgbImage::Filled(info.height, info.width, colours[std::max(transparent, 0)]);
  return ReadRows(gif.get(), colours, image);
}

}  // namespace

absl::StatusOr<RgbImage> DecodeGif(Bytes encoded, const ImageInfo& info,
                                   const DecodeOptions& options) {
  RgbImage image;
  FOVEA_RETURN_IF_ERROR(RunCodec([&] { return Decode(encoded, info, options.background, image); }));
  return image;
}

}  // namespace fovea
