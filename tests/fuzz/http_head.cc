// The head of an HTTP request, up to its empty line, and the target of its line.
#include "server/transport/http/http_head.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "base/limits.h"
#include "tests/fuzz/fuzz_target.h"

namespace fovea {

FOVEA_FUZZ_TARGET(http_head, input) {
  const std::string_view head = input.rest();
  const bool lines_are_good = CheckHeadLines(head).ok();
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser;
  parser.header_limit(16 << 10);
  boost::beast::error_code error;
  parser.put(boost::asio::buffer(head.data(), head.size()), error);
  if (!lines_are_good || error || !parser.is_header_done()) return;
  const absl::StatusOr<HttpTarget> target = CheckHead(parser.get());
  if (!target.ok()) return;
  for (const std::string& part : target->path) FOVEA_CHECK(part.find('\0') == std::string::npos);
  // Who has a length is not chunked: another reader would take another end.
  FOVEA_CHECK(parser.get().count("Content-Length") + parser.get().count("Transfer-Encoding") <= 1);
  FOVEA_CHECK(parser.get().count("Host") <= 1);
}

}  // namespace fovea
