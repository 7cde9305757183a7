#include "server/transport/http/content_coding.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "server/transport/http/accepted_weight.h"

namespace fovea {
namespace {

constexpr size_t kBlockBytes = 64 << 10;

// zlib's stream, ended however the function returns.
struct Deflater {
  explicit Deflater(ContentCoding coding) {
    constexpr int kGzip = 16, kMemoryLevel = 8;  // zlib's, the second its default
    const int window = MAX_WBITS + (coding == ContentCoding::kGzip ? kGzip : 0);
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, window, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Deflater() { deflateEnd(&stream); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  z_stream stream{};
};

}  // namespace

ContentCoding PreferredCoding(std::string_view accept_encoding) {
  const double any = AcceptedWeight(accept_encoding, "*").value_or(0);
  const double as_gzip = AcceptedWeight(accept_encoding, "gzip")
                             .value_or(AcceptedWeight(accept_encoding, "x-gzip").value_or(any));
  const double as_deflate = AcceptedWeight(accept_encoding, "deflate").value_or(any);
  if (as_gzip == 0 && as_deflate == 0) return ContentCoding::kIdentity;
  return as_gzip >= as_deflate ? ContentCoding::kGzip : ContentCoding::kDeflate;
}

bool IsWorthCompressing(const HttpAnswer& answer) {
  if (answer.status != boost::beast::http::status::ok) return false;
  const bool is_image = std::ranges::any_of(answer.fields, [](const auto& field) {
    return field.first == "Content-Type" && field.second.starts_with("image/");
  });
  return !is_image && BodyBytes(answer) >= limits::kLeastCompressedAnswerBytes;
}

void Compress(ContentCoding coding, MemoryBudget& budget, HttpAnswer* answer) {
  const int64_t bytes = BodyBytes(*answer);
  MemoryBudget::Hold memory = budget.Open();  // until the longer of the two is gone
  std::vector<std::string> packed;
  Deflater deflater(coding);
  z_stream& stream = deflater.stream;
  for (size_t part = 0; part <= answer->body.size(); ++part) {
    const bool last = part == answer->body.size();
    if (!last) {
      std::string& text = answer->body[part];
      stream.next_in = reinterpret_cast<Bytef*>(text.data());
      stream.avail_in = static_cast<uInt>(text.size());
    }
    int result = Z_OK;
    while (last ? result != Z_STREAM_END : stream.avail_in > 0) {
      if (stream.avail_out == 0) {
        if (static_cast<int64_t>(stream.total_out) >= bytes) return;
        if (!memory.TryGrow(kBlockBytes)) return;
        packed.emplace_back(kBlockBytes, '\0');
        stream.next_out = reinterpret_cast<Bytef*>(packed.back().data());
        stream.avail_out = kBlockBytes;
      }
      result = deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
    }
  }
  packed.back().resize(kBlockBytes - stream.avail_out);
  if (static_cast<int64_t>(stream.total_out) >= bytes) return;
  answer->body = std::move(packed);
  answer->fields.emplace_back("Content-Encoding",
                              coding == ContentCoding::kGzip ? "gzip" : "deflate");
}

}  // namespace fovea
