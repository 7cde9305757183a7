#include "server/transport/http/http_session.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/request_memory.h"
#include "server/transport/http/content_coding.h"
#include "server/transport/http/http_head.h"
#include "server/transport/http/http_status.h"
#include "server/transport/http/request_body.h"

namespace fovea {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using SteadyTime = std::chrono::steady_clock::time_point;
using Parser = http::request_parser<http::buffer_body>;

constexpr std::string_view kEndOfHead = "\r\n\r\n";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr size_t kHeadReadBytes = 4 * limits::kKiB;
constexpr size_t kMostBuffers = 64;  // of one write

}  // namespace

// One connection. Keeps itself alive while it waits; everything runs on its strand.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  using Port = std::shared_ptr<HttpPort>;

  HttpSession(Port port, tcp::socket socket)
      : port_(std::move(port)), socket_(std::move(socket)), timer_(socket_.get_executor()) {
    ++port_->connections;
  }
  ~HttpSession() {
    --port_->connections;
    MutexLock lock(port_->mutex);
    port_->sessions.erase(this);
  }

  void Start() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->AwaitHead(); });
  }
  void Abort() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Gone(); });
  }

  // The exchange's, from any thread.
  void ForgetGone() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->gone_ = nullptr; });
  }
  void PostAnswer(HttpAnswer answer, std::function<void()> left) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), answer = std::move(answer),
                                        left = std::move(left)]() mutable {
      self->Write(std::move(answer), std::move(left));
    });
  }
  void SetGone(std::function<void()> gone) { gone_ = std::move(gone); }
  const Port& port() const { return port_; }

 private:
  // Heads.

  void AwaitHead() {
    parser_.reset();
    body_.reset();
    request_ = HttpRequest();
    if (buffer_.empty()) {
      buffer_.shrink_to_fit();
    } else {
      head_until_ = HeadLimit();
    }
    LookForHead();
  }

  void LookForHead() {
    // An empty line in front of a request line is no part of it (RFC 9112, section 2.2).
    if (buffer_.starts_with("\r\n")) buffer_.erase(0, 2);
    const size_t end = buffer_.find(kEndOfHead);
    if (end != buffer_.npos && end + kEndOfHead.size() <= limits::kMaxHttpHeadBytes) {
      return ReadHead(end + kEndOfHead.size());
    }
    if (buffer_.size() > limits::kMaxHttpHeadBytes) {
      return Refuse(ResourceExhausted("http.head_too_large",
                                      absl::StrCat("request line and fields of more than ",
                                                   limits::kMaxHttpHeadBytes, " bytes")));
    }
    const bool first = buffer_.empty();
    ExpireAt(first ? Now() + std::chrono::nanoseconds(port_->options.idle) : head_until_);
    ReadMore([this, first](bool came) {
      if (!came && !buffer_.empty()) {
        return Refuse(DeadlineExceeded("http.head_timeout", "the request came too slowly"));
      }
      if (!came) return Close();
      if (first) head_until_ = HeadLimit();
      LookForHead();
    });
  }

  // `next(came)`: false where nothing came in time; not called where the connection has ended.
  template <typename Next>
  void ReadMore(Next next) {
    const size_t had = buffer_.size();
    const size_t more = parser_ ? limits::kHttpReadAheadBytes : kHeadReadBytes;
    buffer_.resize(had + more);
    socket_.async_read_some(
        asio::buffer(buffer_.data() + had, more),
        [self = shared_from_this(), had, next](beast::error_code error, size_t bytes) {
          self->buffer_.resize(had + bytes);
          if (error && !self->timed_out_) return self->Close();
          next(!error);
        });
  }

  void ReadHead(size_t size) {
    const std::string head = buffer_.substr(0, size);
    buffer_.erase(0, size);
    if (const absl::Status lines = CheckHeadLines(head); !lines.ok()) return Refuse(lines);
    parser_.emplace();
    parser_->header_limit(limits::kMaxHttpHeadBytes);
    parser_->body_limit(UINT64_MAX);  // the body counts by itself
    beast::error_code error;
    parser_->put(asio::buffer(head), error);
    // A body wants a place to go to, which it gets later.
    const bool sound =
        !error || error == http::error::need_more || error == http::error::need_buffer;
    if (!sound || !parser_->is_header_done()) {
      return Refuse(BadHttpRequest("its head does not parse"));
    }
    absl::StatusOr<HttpTarget> target = CheckHead(parser_->get());
    if (!target.ok()) return Refuse(target.status());
    request_.method = parser_->get().method();
    request_.target = *std::move(target);
    request_.fields = parser_->get().base();
    ReadBody();
  }

  // Bodies.

  void ReadBody() {
    StartTransfer();
    // Whether a body in chunks is too long is seen when there is a byte too many.
    body_.emplace(port_->budget, port_->bodies,
                  port_->options.max_body_bytes + (parser_->chunked() ? 1 : 0));
    const boost::optional<uint64_t> length = parser_->content_length();
    if (length && *length > static_cast<uint64_t>(port_->options.max_body_bytes)) {
      return Refuse(TooLarge());
    }
    const std::string_view expected = request_.Field(http::field::expect);
    if (!expected.empty() && !beast::iequals({expected.data(), expected.size()}, "100-continue")) {
      return Refuse(
          InvalidArgument("http.expectation_unknown", "what is expected is not known here"));
    }
    left_ = length ? static_cast<int64_t>(*length) : 0;
    const bool empty = !parser_->chunked() && left_ == 0;
    if (expected.empty() || empty || !buffer_.empty() || parser_->get().version() < 11) {
      return ReadRest();
    }
    ExpireAt(TransferLimit(0));
    asio::async_write(socket_, asio::buffer(kContinue),
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        error ? self->Close() : self->ReadRest();
                      });
  }

  void ReadRest() {
    if (parser_->chunked()) return ReadChunks();
    const size_t ahead = std::min(static_cast<size_t>(left_), buffer_.size());
    if (ahead > 0) {
      if (const absl::Status taken = body_->Append(std::string_view(buffer_).substr(0, ahead));
          !taken.ok()) {
        return Refuse(taken);
      }
      buffer_.erase(0, ahead);
      left_ -= static_cast<int64_t>(ahead);
    }
    ReadCounted();
  }

  // A body whose length is known goes from the socket to where it stays.
  void ReadCounted() {
    if (left_ == 0) return Dispatch();
    const absl::StatusOr<std::span<char>> room = body_->Room();
    if (!room.ok()) return Refuse(room.status());
    ExpireAt(TransferLimit(body_->size()));
    socket_.async_read_some(
        asio::buffer(room->data(), std::min(room->size(), static_cast<size_t>(left_))),
        [self = shared_from_this()](beast::error_code error, size_t bytes) {
          if (error && self->timed_out_) return self->RefuseSlowBody();
          if (error) return self->Close();
          self->body_->Commit(bytes);
          self->left_ -= static_cast<int64_t>(bytes);
          self->ReadCounted();
        });
  }

  absl::Status TooLarge() const {
    return ResourceExhausted(
        "request.too_large",
        absl::StrCat("a body of more than ", port_->options.max_body_bytes, " bytes"));
  }

  void ReadChunks() {
    chunks_ = 0;
    on_chunk_ = [this](uint64_t, beast::string_view extensions, beast::error_code& error) {
      // Within quotes Beast takes line ends for text.
      const auto is_control = [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7F; };
      if (std::ranges::any_of(extensions, is_control)) error = http::error::bad_chunk_extension;
      if (++chunks_ > limits::kMaxHttpChunks) error = http::error::body_limit;
    };
    parser_->on_chunk_header(on_chunk_);
    ParseChunks();
  }

  void ParseChunks() {
    while (!parser_->is_done()) {
      const absl::StatusOr<std::span<char>> room = body_->Room();
      if (!room.ok()) return Refuse(room.status());
      http::buffer_body::value_type& part = parser_->get().body();
      part.data = room->data();
      part.size = room->size();
      beast::error_code error;
      const size_t read = parser_->put(asio::buffer(buffer_), error);
      body_->Commit(room->size() - part.size);
      if (body_->size() > port_->options.max_body_bytes) return Refuse(TooLarge());
      const bool moved = read > 0 || part.size < room->size();
      buffer_.erase(0, read);
      if (error == http::error::need_buffer) continue;
      if (error == http::error::body_limit) {
        return Refuse(ResourceExhausted(
            "http.chunk_count",
            absl::StrCat("a body in more than ", limits::kMaxHttpChunks, " chunks")));
      }
      if (error && error != http::error::need_more) {
        return Refuse(BadHttpRequest("its chunks do not parse"));
      }
      if (moved && !error) continue;
      if (buffer_.size() > limits::kHttpReadAheadBytes) {
        return Refuse(BadHttpRequest("a line of its chunks does not end"));
      }
      ExpireAt(TransferLimit(body_->size()));
      return ReadMore([this](bool came) { came ? ParseChunks() : RefuseSlowBody(); });
    }
    Dispatch();
  }

  void RefuseSlowBody() {
    Refuse(DeadlineExceeded("http.body_timeout", "the request's body came too slowly"));
  }

  // Answers.

  void Dispatch();

  // Hears of a caller who ends the connection while it waits for its answer.
  void Watch() {
    ExpireNever();
    socket_.async_wait(
        tcp::socket::wait_read,
        [self = shared_from_this(), number = exchange_number_](beast::error_code error) {
          if (error || !self->waiting_ || number != self->exchange_number_) return;
          char byte;
          const ssize_t came =
              ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
          const bool nothing_yet = came < 0 && (errno == EAGAIN || errno == EINTR);
          if (nothing_yet) return self->Watch();
          // The next request: its end is seen when it is read.
          if (came <= 0) self->Gone();
        });
  }

  // Nobody reads an answer any more.
  void Gone() {
    Close();
    if (const auto gone = std::exchange(gone_, nullptr); gone != nullptr && waiting_) gone();
  }

  void Write(HttpAnswer answer, std::function<void()> left) {
    waiting_ = false;
    gone_ = nullptr;
    left_callback_ = std::move(left);
    if (!socket_.is_open()) return Left();
    keep_alive_ = !last_ && parser_ && parser_->keep_alive() && !port_->draining;
    const int64_t bytes = BodyBytes(answer);
    std::string head = absl::StrCat("HTTP/1.1 ", static_cast<unsigned>(answer.status), " ",
                                    std::string(http::obsolete_reason(answer.status)), "\r\n");
    for (const auto& [name, value] : answer.fields)
      absl::StrAppend(&head, name, ": ", value, "\r\n");
    if (answer.status != http::status::no_content) {
      absl::StrAppend(&head, "Content-Length: ", bytes, "\r\n");
    }
    if (!keep_alive_) {
      absl::StrAppend(&head, "Connection: close\r\n");
    } else if (parser_->get().version() < 11) {
      absl::StrAppend(&head, "Connection: keep-alive\r\n");
    }
    head.append("\r\n");
    parts_.clear();
    parts_.push_back(std::move(head));
    if (request_method_ != http::verb::head) {
      for (std::string& part : answer.body) {
        if (!part.empty()) parts_.push_back(std::move(part));
      }
    }
    part_ = offset_ = 0;
    sent_ = 0;
    StartTransfer();
    WriteSome();
  }

  void WriteSome() {
    std::vector<asio::const_buffer> buffers;
    for (size_t i = part_; i < parts_.size() && buffers.size() < kMostBuffers; ++i) {
      const size_t skipped = i == part_ ? offset_ : 0;
      buffers.emplace_back(parts_[i].data() + skipped, parts_[i].size() - skipped);
    }
    ExpireAt(TransferLimit(sent_));
    socket_.async_write_some(buffers,
                             [self = shared_from_this()](beast::error_code error, size_t bytes) {
                               self->Wrote(error, bytes);
                             });
  }

  void Wrote(beast::error_code error, size_t bytes) {
    if (error) {
      Close();
      return Left();
    }
    sent_ += static_cast<int64_t>(bytes);
    for (size_t rest = bytes; rest > 0;) {
      const size_t step = std::min(rest, parts_[part_].size() - offset_);
      offset_ += step;
      rest -= step;
      if (offset_ == parts_[part_].size()) {
        std::string().swap(parts_[part_++]);
        offset_ = 0;
      }
    }
    if (part_ < parts_.size()) return WriteSome();
    Left();
    keep_alive_ ? AwaitHead() : Linger();
  }

  void Left() {
    parts_.clear();
    if (const auto left = std::exchange(left_callback_, nullptr); left != nullptr) left();
  }

  // What the connection would bring behind this cannot be told apart from what was refused.
  void Refuse(const absl::Status& why) {
    last_ = true;
    body_.reset();
    request_method_ = request_.method;
    Write(ErrorAnswer(why), nullptr);
  }

  // Closing at once would reset the connection where the caller still sends, and take the answer
  // away from it (RFC 9112, section 9.6).
  void Linger() {
    beast::error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    if (error) return Close();
    ExpireAt(Now() + std::chrono::seconds(limits::kHttpLingerSeconds));
    buffer_.resize(kHeadReadBytes);
    Discard();
  }
  void Discard() {
    socket_.async_read_some(asio::buffer(buffer_.data(), buffer_.size()),
                            [self = shared_from_this()](beast::error_code error, size_t) {
                              error || self->timed_out_ ? self->Close() : self->Discard();
                            });
  }

  void Close() {
    ExpireNever();
    beast::error_code ignored;
    socket_.close(ignored);
  }

  // Time, as asio's timers have it.

  static SteadyTime Now() { return std::chrono::steady_clock::now(); }
  SteadyTime HeadLimit() const {
    return Now() + std::chrono::nanoseconds(port_->options.head_time);
  }
  // A body or an answer begins.
  void StartTransfer() {
    part_start_ = Now();
    part_begin_ = 0;
  }
  // Of which `bytes` have gone: each `transfer_time` has to bring its share at the least speed, so
  // that what comes fast at first buys no time for standing still.
  SteadyTime TransferLimit(int64_t bytes) {
    const Nanos time = port_->options.transfer_time;
    const double share = static_cast<double>(time) / kSecond * limits::kLeastHttpBytesPerSecond;
    if (bytes - part_begin_ >= static_cast<int64_t>(share)) {
      part_start_ = Now();
      part_begin_ = bytes;
    }
    return part_start_ + std::chrono::nanoseconds(time);
  }

  // Then what waits for the socket ends with an error, and timed_out_ says why. (Beast's own stream
  // closes the socket, and nothing could be answered.)
  void ExpireAt(SteadyTime time) {
    timed_out_ = false;
    timer_.expires_at(time);
    timer_.async_wait(
        [self = shared_from_this(), number = ++timer_number_](beast::error_code error) {
          if (error || number != self->timer_number_) return;
          self->timed_out_ = true;
          beast::error_code ignored;
          self->socket_.cancel(ignored);
        });
  }
  void ExpireNever() {
    ++timer_number_;
    timer_.cancel();
  }

  const Port port_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  uint64_t timer_number_ = 0;
  bool timed_out_ = false;              // what waited for the socket waits no more
  std::string buffer_;                  // read, and not yet looked at
  SteadyTime head_until_, part_start_;  // of a transfer
  int64_t part_begin_ = 0;
  std::optional<Parser> parser_;
  std::optional<RequestBody> body_;
  HttpRequest request_;                          // until it is handed on
  http::verb request_method_ = http::verb::get;  // of the one that is answered
  int64_t left_ = 0;                             // of a body whose length is known
  int64_t chunks_ = 0;
  std::function<void(uint64_t, beast::string_view, beast::error_code&)> on_chunk_;
  uint64_t exchange_number_ = 0;
  bool waiting_ = false;  // for an answer
  bool last_ = false;     // no request follows
  bool keep_alive_ = false;
  std::function<void()> gone_, left_callback_;
  std::vector<std::string> parts_;  // of the answer
  size_t part_ = 0, offset_ = 0;    // where it is
  int64_t sent_ = 0;
};

namespace {

class Exchange final : public HttpExchange, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<HttpSession> session, HttpRequest request)
      : session_(std::move(session)),
        port_(session_->port()),
        request_(std::move(request)),
        coding_(PreferredCoding(request_.Field(http::field::accept_encoding))) {
    MutexLock lock(port_->mutex);
    ++port_->exchanges;
  }
  ~Exchange() override {
    // Its handler had no memory (Dispatch).
    if (!answered_) session_->PostAnswer(ErrorAnswer(OutOfMemory()), nullptr);
    session_.reset();
    request_ = HttpRequest();  // its body counts in a budget that may go when exchanges have ended
    port_->ExchangeEnded();
  }

  HttpRequest& request() override { return request_; }
  // Nobody is to answer it: the server has closed.
  void Drop() { answered_ = true; }
  void OnGone(std::function<void()> gone) override { session_->SetGone(std::move(gone)); }
  void Defer(absl::AnyInvocable<void()> work) override {
    asio::post(port_->slow, [self = shared_from_this(), work = std::move(work)]() mutable {
      const absl::Status done = OrOutOfMemory([&] {
        std::exchange(work, nullptr)();
        return absl::OkStatus();
      });
      // As where a handler fails (Dispatch).
      if (!done.ok()) self->session_->ForgetGone();
    });
  }
  void Answer(HttpAnswer answer, std::function<void()> left) override {
    if (!IsWorthCompressing(coding_, answer)) return Send(std::move(answer), std::move(left));
    Defer(
        [self = shared_from_this(), answer = std::move(answer), left = std::move(left)]() mutable {
          Compress(self->coding_, self->port_->budget, &answer);
          self->Send(std::move(answer), std::move(left));
        });
  }
  void Answer(HttpAnswer answer) override {
    const int64_t bytes = BodyBytes(answer);
    if (bytes <= limits::kUncountedAnswerBytes) return Answer(std::move(answer), nullptr);
    const auto memory = std::make_shared<RequestMemory>(port_->budget);
    if (const absl::Status taken = memory->Take(bytes); !taken.ok()) {
      return Send(ErrorAnswer(taken), nullptr);
    }
    Answer(std::move(answer), [memory] { memory->Release(); });
  }

 private:
  void Send(HttpAnswer answer, std::function<void()> left) {
    answered_ = true;
    session_->PostAnswer(std::move(answer), std::move(left));
  }

  std::shared_ptr<HttpSession> session_;
  const HttpSession::Port port_;
  HttpRequest request_;
  const ContentCoding coding_;  // of the answer, where it is worth it
  bool answered_ = false;
};

}  // namespace

void HttpSession::Dispatch() {
  request_.arrived = port_->clock.Now();
  request_.body = body_->Bytes();
  request_.body_bytes = body_->size();
  body_.reset();
  request_method_ = request_.method;
  const auto exchange = std::make_shared<Exchange>(shared_from_this(), std::move(request_));
  request_ = HttpRequest();
  if (port_->Closed()) return exchange->Drop();
  waiting_ = true;
  ++exchange_number_;
  Watch();
  const absl::Status handled = OrOutOfMemory([&] {
    port_->handler(exchange);
    return absl::OkStatus();
  });
  // Who is told when the caller goes may be what keeps the exchange from its end.
  if (!handled.ok()) gone_ = nullptr;
}

bool StartHttpSession(std::shared_ptr<HttpPort> port, tcp::socket socket) {
  HttpPort& shared = *port;
  const auto session = std::make_shared<HttpSession>(std::move(port), std::move(socket));
  {
    // Not held when a session goes: that takes it too.
    MutexLock lock(shared.mutex);
    if (shared.closed) return false;
    shared.sessions.emplace(session.get(), session);
  }
  session->Start();
  return true;
}

void AbortHttpSessions(HttpPort& port) {
  std::vector<std::shared_ptr<HttpSession>> sessions;
  {
    MutexLock lock(port.mutex);
    for (const auto& [session, weak] : port.sessions) {
      if (std::shared_ptr<HttpSession> alive = weak.lock()) sessions.push_back(std::move(alive));
    }
  }
  for (const auto& session : sessions) session->Abort();
}

}  // namespace fovea
