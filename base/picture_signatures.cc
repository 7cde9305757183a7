#include "base/picture_signatures.h"

namespace fovea {
namespace {

constexpr PictureSignature kSignatures[] = {
    {"JPEG", "\xff\xd8\xff"},
    {"PNG", "\x89PNG\r\n\x1a\n"},
    {"WebP", "RIFF", 8, "WEBP"},
    {"GIF", "GIF87a"},
    {"GIF", "GIF89a"},
    {"BMP", "BM", 0, "", false},
    {"TIFF", {"II*\0", 4}},
    {"TIFF", {"MM\0*", 4}},
#ifdef FOVEA_AVIF
    // After the length of the first box.
    {"AVIF", "", 4, "ftypavif"},
    {"AVIF", "", 4, "ftypavis"},
    {"AVIF", "", 4, "ftypmif1", false},
#endif
};

constexpr std::string_view kExtensions[] = {
    ".jpg",  ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff",
#ifdef FOVEA_AVIF
    ".avif",
#endif
};

}  // namespace

std::span<const PictureSignature> PictureSignatures() { return kSignatures; }

std::span<const std::string_view> PictureExtensions() { return kExtensions; }

}  // namespace fovea
