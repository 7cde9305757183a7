// Recognises by their first bytes the files that callers send instead of pictures.
#include <algorithm>
#include <cctype>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

#ifdef FOVEA_AVIF
constexpr char kSupported[] = "JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF";
#else
constexpr char kSupported[] = "JPEG, PNG, WebP, GIF, BMP, TIFF";
#endif
constexpr std::string_view kConvert = "convert it to JPEG or PNG";

struct Kind {
  size_t at;
  std::string_view magic;
  std::string_view name;  // "this is ..."
  std::string_view remedy = kConvert;
};

constexpr std::string_view kExport = "send a picture of its page";
constexpr std::string_view kUnpack = "unpack it and send the pictures in it";

constexpr Kind kKinds[] = {
    {4, "ftypheic", "a HEIC picture (an iPhone's format)"},
    {4, "ftypheix", "a HEIC picture (an iPhone's format)"},
    {4, "ftyphei", "a HEIF picture"},
    {4, "ftyphev", "a HEIF picture"},
    {4, "ftypmif1", "a HEIF picture"},
    {4, "ftypmsf1", "a HEIF picture"},
    {4, "ftypavif", "an AVIF picture"},
    {4, "ftypcrx ", "a camera's raw picture (CR3)"},
    {4, "ftyp", "a video (MP4, MOV or the like)", "send a frame of it as JPEG or PNG"},
    {0, {"\0\0\0\x0cJXL ", 8}, "a JPEG XL picture"},
    {0, "\xff\x0a", "a JPEG XL picture"},
    {0, {"\0\0\0\x0cjP  ", 8}, "a JPEG 2000 picture"},
    {0, {"\xff\x4f\xff\x51", 4}, "a JPEG 2000 picture"},
    {0, "8BPS", "a Photoshop document"},
    {0, "%PDF", "a PDF document", kExport},
    {0, "%!PS", "a PostScript document", kExport},
    {0, {"\0\0\1\0", 4}, "an icon (ICO)"},
    {0, {"\0\0\2\0", 4}, "a cursor (CUR)"},
    {0, {"II+\0", 4}, "a BigTIFF picture", "convert it to JPEG, PNG or TIFF"},
    {0, {"MM\0+", 4}, "a BigTIFF picture", "convert it to JPEG, PNG or TIFF"},
    {0, "IIRO", "a camera's raw picture (ORF)"},
    {0, "FUJIFILMCCD-RAW", "a camera's raw picture (RAF)"},
    {0, {"\x76\x2f\x31\x01", 4}, "an OpenEXR picture"},
    {0, "#?RADIANCE", "a Radiance HDR picture"},
    {0, "DDS ", "a DirectDraw surface"},
    {0, "qoif", "a QOI picture"},
    {0, "RIFF", "a RIFF file other than WebP (a sound or a video)", "send a JPEG or PNG"},
    {0, {"PK\3\4", 4}, "a ZIP archive or an Office document", kUnpack},
    {0, "\x1f\x8b", "gzip data", kUnpack},
    {0, "Rar!", "a RAR archive", kUnpack},
    {0, "7z\xbc\xaf", "a 7z archive", kUnpack},
    {0, "\x1a\x45\xdf\xa3", "a video (Matroska or WebM)", "send a frame of it as JPEG or PNG"},
    {0, {"\x93NUMPY", 6}, "a NumPy array", "send its pixels as a uint8 tensor, or as PNG"},
};

absl::Status Refused(std::string_view name, std::string_view remedy) {
  return InvalidArgument("image.unsupported_type",
                         absl::StrCat("unsupported image: this is ", std::string(name), "; ",
                                      std::string(remedy), ". Supported: ", kSupported));
}

bool IsText(std::string_view beginning) {
  return !beginning.empty() && std::ranges::all_of(beginning, [](unsigned char c) {
    return c >= 0x20 || c == '\t' || c == '\n' || c == '\r' || c == '\f';
  });
}

// The first bytes of pictures in base64.
bool IsBase64(std::string_view text) {
  for (const std::string_view start :
       {"/9j/", "iVBORw0KGgo", "UklGR", "R0lGOD", "Qk", "SUkqA", "TU0AK", "AAAA"}) {
    if (text.starts_with(start)) {
      return std::ranges::all_of(text, [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '/' ||
               c == '=' || c == '-' || c == '_' || c == '\r' || c == '\n';
      });
    }
  }
  return false;
}

absl::Status RefusedText(std::string_view beginning) {
  constexpr size_t kShown = 40;
  std::string text(beginning);
  absl::StripLeadingAsciiWhitespace(&text);
  const std::string lower = absl::AsciiStrToLower(text);
  const auto begins = [&](std::string_view start) { return lower.starts_with(start); };
  if (begins("data:")) {
    return Refused("a data URL", "send the bytes that it holds, or the URL as a JSON string");
  }
  if (IsBase64(text)) {
    return Refused("text in base64", "send the bytes that it stands for, or it as a JSON string");
  }
  if (begins("http://") || begins("https://") || begins("file://")) {
    return Refused("a URL", "send the picture itself: none is fetched");
  }
  if (lower.find("<svg") != std::string::npos)
    return Refused("an SVG drawing", "convert it to PNG");
  if (begins("<!doctype html") || begins("<html") || begins("<head") || begins("<body")) {
    return Refused("an HTML page (an error page of a download?)", "send the picture itself");
  }
  if (begins("<")) return Refused("an XML document", "send the picture itself");
  if (begins("{") || begins("[")) return Refused("JSON", "send the picture itself");
  if (text.size() > 2 && text[0] == 'P' && text[1] >= '1' && text[1] <= '7' &&
      absl::ascii_isspace(static_cast<unsigned char>(text[2]))) {
    return Refused("a Netpbm picture (PBM, PGM or PPM)", kConvert);
  }
  return Refused(
      absl::StrCat("text, which begins '", absl::CHexEscape(text.substr(0, kShown)), "'"),
      "send the bytes of a picture's file");
}

}  // namespace

absl::Status UnknownKind(Bytes encoded) {
  constexpr size_t kLooked = 512;
  for (const Kind& kind : kKinds) {
    if (StartsWith(encoded, kind.at, kind.magic)) return Refused(kind.name, kind.remedy);
  }
  const Bytes beginning = encoded.first(std::min(encoded.size(), kLooked));
  std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (IsText(text)) return RefusedText(text);
  // Binary forms of Netpbm's.
  if (text.size() > 2 && text[0] == 'P' && text[1] >= '4' && text[1] <= '7' && text[2] == '\n') {
    return Refused("a Netpbm picture (PBM, PGM or PPM)", kConvert);
  }
  return Refused("an unknown format", kConvert);
}

}  // namespace fovea
