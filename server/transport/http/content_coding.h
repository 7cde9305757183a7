// Compression of answers, as far as their callers accept it (RFC 9110, section 12.5.3). What comes
// compressed is unpacked by messages/inflate.
#pragma once

#include <string_view>

#include "server/core/memory_budget.h"
#include "server/transport/http/http_exchange.h"

namespace fovea {

enum class ContentCoding { kIdentity, kGzip, kDeflate };

// What an Accept-Encoding field asks for: the coding of the greatest weight, gzip of equals. What
// does not parse in it asks for nothing.
ContentCoding PreferredCoding(std::string_view accept_encoding);

// Not an error, what is short, or an image, which is compressed already.
bool IsWorthCompressing(const HttpAnswer& answer);

// Compresses the body and says so in the fields. The answer stays as it is where it would not
// become shorter, or where `budget` has no room for both. Throws std::bad_alloc.
void Compress(ContentCoding coding, MemoryBudget& budget, HttpAnswer* answer);

}  // namespace fovea
