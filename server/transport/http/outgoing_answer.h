// An answer as it leaves a connection.
#pragma once

#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/transport/http/http_exchange.h"

namespace fovea {

// How an answer is framed. The caller's version counts where the connection lasts.
struct AnswerFraming {
  bool keep_alive = false;
  bool is_http_1_0 = false;
  bool has_body = true;  // false: to HEAD, whose fields are those of the whole
  // More comes: in chunks, or in HTTP/1.0 until the connection ends.
  bool in_parts = false;
};

// The head and the body of one answer, or a part of it, sent in as many steps as the socket makes
// of them.
class OutgoingAnswer {
 public:
  OutgoingAnswer(HttpAnswer answer, const AnswerFraming& framing);
  // A further part of an answer in parts, and with `last` the end of it.
  OutgoingAnswer(std::string part, const AnswerFraming& framing, bool last);

  bool done() const { return part_ == parts_.size(); }
  int64_t sent() const { return sent_; }
  // What comes next, or the beginning of it. Valid until Sent.
  std::vector<boost::asio::const_buffer> Next() const;
  // `bytes` of it have left. Parts that have left as a whole hold no memory any more.
  void Sent(size_t bytes);

 private:
  void Add(std::string part);
  void AddChunk(std::string part, const AnswerFraming& framing);

  std::vector<std::string> parts_;  // none empty
  size_t part_ = 0, offset_ = 0;    // where it is
  int64_t sent_ = 0;
};

}  // namespace fovea
