#include "server/transport/http/outgoing_answer.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fovea {
namespace {

namespace http = boost::beast::http;

constexpr size_t kMostBuffers = 64;  // of one write

std::string Head(const HttpAnswer& answer, const AnswerFraming& framing) {
  std::string head = absl::StrCat("HTTP/1.1 ", static_cast<unsigned>(answer.status), " ",
                                  std::string(http::obsolete_reason(answer.status)), "\r\n");
  for (const auto& [name, value] : answer.fields) absl::StrAppend(&head, name, ": ", value, "\r\n");
  // (The length that not_modified could tell is not of this body.)
  const bool has_length =
      answer.status != http::status::no_content && answer.status != http::status::not_modified;
  if (framing.in_parts) {
    if (!framing.is_http_1_0) absl::StrAppend(&head, "Transfer-Encoding: chunked\r\n");
  } else if (has_length) {
    absl::StrAppend(&head, "Content-Length: ", BodyBytes(answer), "\r\n");
  }
  if (!framing.keep_alive) {
    absl::StrAppend(&head, "Connection: close\r\n");
  } else if (framing.is_http_1_0) {
    absl::StrAppend(&head, "Connection: keep-alive\r\n");
  }
  return head + "\r\n";
}

}  // namespace

OutgoingAnswer::OutgoingAnswer(HttpAnswer answer, const AnswerFraming& framing) {
  parts_.push_back(Head(answer, framing));
  if (!framing.has_body) return;
  for (std::string& part : answer.body) {
    framing.in_parts ? AddChunk(std::move(part), framing) : Add(std::move(part));
  }
}

OutgoingAnswer::OutgoingAnswer(std::string part, const AnswerFraming& framing, bool last) {
  AddChunk(std::move(part), framing);
  if (last && !framing.is_http_1_0) Add("0\r\n\r\n");
}

void OutgoingAnswer::Add(std::string part) {
  if (!part.empty()) parts_.push_back(std::move(part));
}

// An empty chunk would be the end.
void OutgoingAnswer::AddChunk(std::string part, const AnswerFraming& framing) {
  if (part.empty()) return;
  if (framing.is_http_1_0) return Add(std::move(part));
  Add(absl::StrCat(absl::Hex(part.size()), "\r\n"));
  Add(std::move(part));
  Add("\r\n");
}

std::vector<boost::asio::const_buffer> OutgoingAnswer::Next() const {
  std::vector<boost::asio::const_buffer> buffers;
  for (size_t i = part_; i < parts_.size() && buffers.size() < kMostBuffers; ++i) {
    const size_t skipped = i == part_ ? offset_ : 0;
    buffers.emplace_back(parts_[i].data() + skipped, parts_[i].size() - skipped);
  }
  return buffers;
}

void OutgoingAnswer::Sent(size_t bytes) {
  sent_ += static_cast<int64_t>(bytes);
  while (bytes > 0) {
    const size_t step = std::min(bytes, parts_[part_].size() - offset_);
    offset_ += step;
    bytes -= step;
    if (offset_ == parts_[part_].size()) {
      std::string().swap(parts_[part_++]);
      offset_ = 0;
    }
  }
}

}  // namespace fovea
