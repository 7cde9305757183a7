// libjpeg-turbo. It leaves its functions by longjmp when it fails, past the destructors of whatever
// C++ lies between: so nothing with a destructor lives between JpegReader::Read and libjpeg.
//
// Not TurboJPEG, which keeps the first warning alone: spare bytes, which touch no pixel, and damage
// behind them look alike there.
#include <cstdio>
// libjpeg's headers need <cstdio> before them.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/pixel_format.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"
#include "server/imaging/jpeg_scale.h"

namespace fovea {
namespace {

// True for the warnings after which every pixel is still the file's: bytes that belong to nothing,
// an Adobe transform or a JFIF version that does not exist, scan parameters that a sequential file
// has no use for. After any other libjpeg has made pixels up.
bool TouchesNoPixel(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_ADOBE_XFORM ||
         warning == JWRN_JFIF_MAJOR || warning == JWRN_NOT_SEQUENTIAL;
}

// Length of the file without the zeros that it ends in.
size_t WithoutZeros(Bytes encoded) {
  const auto is_zero = [](std::byte byte) { return byte == std::byte(0); };
  const auto last = std::find_if_not(encoded.rbegin(), encoded.rend(), is_zero);
  return static_cast<size_t>(encoded.rend() - last);
}

constexpr int kRowsTogether = 16;

class JpegReader {
 public:
  JpegReader() {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = Fail;
    errors_.emit_message = Warn;
    jpeg_.client_data = this;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }

  // Writes RGB into `rgb`; `inks` holds kRowsTogether rows of a CMYK image. Returns what libjpeg
  // says went wrong, and nothing when all pixels were written.
  std::string Read(Bytes encoded, const ImageInfo& info, int halvings, uint8_t* inks,
                   RgbImage& image) {
    if (setjmp(failed_) != 0) return absl::StrCat("libjpeg: ", words_);
    jpeg_create_decompress(&jpeg_);
    most_scans_ = info.scans;
    progress_.progress_monitor = CountScans;
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
    jpeg_read_header(&jpeg_, /*require_image=*/TRUE);
    jpeg_.out_color_space = inks != nullptr ? JCS_CMYK : JCS_EXT_RGB;  // YCCK becomes CMYK
    jpeg_.scale_num = 1;
    jpeg_.scale_denom = 1 << halvings;
    jpeg_calc_output_dimensions(&jpeg_);
    if (static_cast<int>(jpeg_.output_width) != image.width ||
        static_cast<int>(jpeg_.output_height) != image.height) {
      return "libjpeg read another size than the probe";
    }
    jpeg_start_decompress(&jpeg_);
    const size_t row_bytes = size_t{3} * image.width;
    while (jpeg_.output_scanline < jpeg_.output_height) {
      uint8_t* rgb = image.pixels.get() + jpeg_.output_scanline * row_bytes;
      uint8_t* first = inks != nullptr ? inks : rgb;
      const size_t stride = inks != nullptr ? size_t{4} * image.width : row_bytes;
      const int left = static_cast<int>(jpeg_.output_height - jpeg_.output_scanline);
      JSAMPROW rows[kRowsTogether];
      for (int i = 0; i < std::min(left, kRowsTogether); ++i) rows[i] = first + i * stride;
      const JDIMENSION read = jpeg_read_scanlines(&jpeg_, rows, std::min(left, kRowsTogether));
      if (inks != nullptr) InvertedCmykToRgb(size_t{read} * image.width, inks, rgb);
    }
    // libjpeg has read up to eight bytes ahead.
    const size_t consumed = encoded.size() - jpeg_.src->bytes_in_buffer;
    complete_ = consumed <= WithoutZeros(encoded) + 8;
    jpeg_finish_decompress(&jpeg_);
    return {};
  }

 private:
  static JpegReader& Of(j_common_ptr jpeg) { return *static_cast<JpegReader*>(jpeg->client_data); }

  [[noreturn]] static void Fail(j_common_ptr jpeg) {
    JpegReader& reader = Of(jpeg);
    jpeg->err->format_message(jpeg, reader.words_);
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY) errno = ENOMEM;
    std::longjmp(reader.failed_, 1);
  }
  static void Warn(j_common_ptr jpeg, int level) {
    const int warning = jpeg->err->msg_code;
    const bool only_end_is_missing = warning == JWRN_JPEG_EOF && Of(jpeg).complete_;
    if (level < 0 && !only_end_is_missing && !TouchesNoPixel(warning)) Fail(jpeg);
  }
  static void CountScans(j_common_ptr jpeg) {
    const auto* decompress = reinterpret_cast<j_decompress_ptr>(jpeg);
    if (decompress->input_scan_number > Of(jpeg).most_scans_) {
      ERREXIT(jpeg, JERR_BAD_PROGRESSION);
    }
  }

  jpeg_decompress_struct jpeg_ = {};
  jpeg_error_mgr errors_;
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf failed_;
  int most_scans_ = 0;
  bool complete_ = false;  // all pixels came before the zeros that the file ends in
  char words_[JMSG_LENGTH_MAX] = {};
};

}  // namespace

absl::StatusOr<RgbImage> DecodeJpeg(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options) {
  RgbImage image;
  FOVEA_RETURN_IF_ERROR(RunCodec([&] {
    image = RgbImage::Allocate(DecodedSide(info.height, options.halvings),
                               DecodedSide(info.width, options.halvings));
    std::unique_ptr<uint8_t[]> inks;
    if (info.components == 4) {
      inks = std::make_unique_for_overwrite<uint8_t[]>(size_t{4} * kRowsTogether * image.width);
    }
    JpegReader reader;
    return reader.Read(encoded, info, options.halvings, inks.get(), image);
  }));
  return image;
}

}  // namespace fovea
