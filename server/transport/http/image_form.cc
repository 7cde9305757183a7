#include "server/transport/http/image_form.h"

#include <algorithm>
#include <span>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/transport/http/contiguous.h"
#include "server/transport/http/multipart.h"
#include "server/transport/messages/inflate.h"

namespace fovea {
namespace {

using boost::beast::http::field;

constexpr std::string_view kForm = "multipart/form-data";

bool IsForm(std::string_view type) {
  return absl::StartsWithIgnoreCase({type.data(), type.size()}, {kForm.data(), kForm.size()});
}

// True of "image" and "images", and of a list's elements as many forms name them: "image[]",
// "image[0]".
bool IsImage(std::string_view part) {
  if (part.ends_with(']')) part = part.substr(0, part.find('['));
  return part == "image" || part == "images";
}

}  // namespace

absl::StatusOr<ReceivedBytes> UnpackBody(const HttpRequest& request, int64_t max_message_bytes,
                                         RequestMemory* memory) {
  const std::string_view encoding = request.Field(field::content_encoding);
  const auto is = [encoding](absl::string_view name) {
    return absl::EqualsIgnoreCase({encoding.data(), encoding.size()}, name);
  };
  if (encoding.empty() || is("identity")) return request.body;
  if (!is("gzip") && !is("x-gzip") && !is("deflate")) {
    return InvalidArgument(
        "request.encoding",
        absl::StrCat("unsupported Content-Encoding ", InQuotes(encoding), ": gzip or deflate"));
  }
  return Inflate(request.body, std::min(max_message_bytes, limits::kMaxDecompressedMessageBytes),
                 memory);
}

absl::StatusOr<ImageFiles> ReadImageForm(const HttpRequest& request, const ReceivedBytes& body,
                                         RequestMemory* memory, TakeOption take_option) {
  size_t budget = limits::kMaxRequestHeaderBytes;
  const auto take = [&](std::string_view name, std::string_view value) -> absl::Status {
    // First whether it is an option: a part of another name is mostly a picture.
    FOVEA_RETURN_IF_ERROR(take_option(name, value.substr(0, budget)));
    if (value.size() > budget) {
      return ResourceExhausted(
          "request.header_too_large",
          absl::StrCat("options of more than ", limits::kMaxRequestHeaderBytes, " bytes"));
    }
    budget -= value.size();
    return absl::OkStatus();
  };
  for (const auto& [name, value] : request.target.query) FOVEA_RETURN_IF_ERROR(take(name, value));
  ImageFiles images;
  int64_t size = 0;
  for (const ScatteredBytes::Piece piece : body.pieces) size += static_cast<int64_t>(piece.size());
  const std::string_view type = request.Field(field::content_type);
  if (!IsForm(type)) {
    if (size > 0) {
      images.files.emplace_back(
          std::vector<ScatteredBytes::Piece>(body.pieces.begin(), body.pieces.end()), body.owner);
    }
    return images;
  }
  if (memory != nullptr) FOVEA_RETURN_IF_ERROR(memory->Take(size));
  const ContiguousText text = Gather(body, static_cast<size_t>(size), 0);
  FOVEA_ASSIGN_OR_RETURN(const std::vector<FormPart> parts, ReadForm(type, text.text));
  for (const FormPart& part : parts) {
    if (IsImage(part.name)) {
      images.files.emplace_back(std::as_bytes(std::span(part.bytes)), text.owner);
    } else {
      FOVEA_RETURN_IF_ERROR(take(part.name, part.bytes));
    }
  }
  return images;
}

}  // namespace fovea
