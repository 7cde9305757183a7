// A form: its content type, a line end, and its body.
#include "server/transport/http/multipart.h"

#include "base/limits.h"
#include "tests/fuzz/fuzz_target.h"

namespace fovea {

FOVEA_FUZZ_TARGET(multipart, input) {
  const std::string_view content_type = input.TakeUntil('\n');
  const std::string_view body = input.rest();
  const auto parts = ReadForm(content_type, body);
  if (!parts.ok()) return;
  FOVEA_CHECK(parts->size() <= static_cast<size_t>(limits::kMaxFormParts));
  const char* last = body.data();
  for (const FormPart& part : *parts) {
    FOVEA_CHECK(!part.name.empty());
    // Inside of the body, and none over another.
    FOVEA_CHECK(part.bytes.data() >= last);
    last = part.bytes.data() + part.bytes.size();
    FOVEA_CHECK(last <= body.data() + body.size());
  }
}

}  // namespace fovea
