#include "server/transport/http/http_session.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <ctime>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/transport/http/http_head.h"
#include "server/transport/http/http_status.h"
#include "server/transport/http/http_stream.h"
#include "server/transport/http/outgoing_answer.h"
#include "server/transport/http/request_body.h"
#include "server/transport/http/session_exchange.h"
#include "server/transport/http/transfer_pace.h"

namespace fovea {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using SteadyTime = TransferPace::SteadyTime;
using Parser = http::request_parser<http::buffer_body>;

constexpr std::string_view kEndOfHead = "\r\n\r\n";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr size_t kHeadReadBytes = 4 * limits::kKiB;

// A later version 1.x is read as 1.1, the latest that is known (RFC 9110, section 2.5).
void AsHttp11(std::string* head) {
  const size_t end = head->find("\r\n");
  const std::string_view line(head->data(), end);
  constexpr std::string_view kVersion1 = " HTTP/1.";
  if (end <= kVersion1.size() || !line.substr(0, end - 1).ends_with(kVersion1)) return;
  if (line.back() >= '2' && line.back() <= '9') (*head)[end - 1] = '1';
}

// RFC 9110, section 5.6.7.
std::string HttpDate(std::time_t now) {
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[sizeof("Sun, 06 Nov 1994 08:49:37 GMT")];
  return {text, std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

}  // namespace

// One connection. Keeps itself alive while it waits; everything runs on its strand.
class HttpSession final : public ExchangeOwner, public std::enable_shared_from_this<HttpSession> {
 public:
  using Port = std::shared_ptr<HttpPort>;

  HttpSession(Port port, tcp::socket socket, asio::ssl::context* tls)
      : port_(std::move(port)),
        stream_(std::move(socket), tls),
        socket_(stream_.socket()),
        timer_(socket_.get_executor()),
        shaking_hands_(stream_.has_tls()),
        handshake_strand_(asio::make_strand(port_->handshake_io)),
        handshake_timer_(handshake_strand_),
        pace_(port_->options.transfer_time) {
    ++port_->connections;
  }
  ~HttpSession() {
    --port_->connections;
    MutexLock lock(port_->mutex);
    port_->sessions.erase(this);
  }

  void Start() {
    if (stream_.has_tls()) {
      return asio::post(handshake_strand_, [self = shared_from_this()] { self->ShakeHands(); });
    }
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->AwaitHead(); });
  }
  // With `if_idle` only where it waits for a request, or sets up TLS.
  void Abort(bool if_idle = false) {
    const auto post_gone = [self = shared_from_this(), if_idle] {
      asio::post(self->socket_.get_executor(), [self, if_idle] {
        if (!if_idle || self->awaits_head_) self->Gone();
      });
    };
    if (!stream_.has_tls()) return post_gone();
    asio::post(handshake_strand_, [self = shared_from_this(), post_gone] {
      self->shaking_hands_ ? self->EndHandshake() : post_gone();
    });
  }

  // ExchangeOwner:
  void ForgetGone() override {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->gone_ = nullptr; });
  }
  void PostAnswer(HttpAnswer answer, std::function<void()> left) override {
    asio::post(socket_.get_executor(), [self = shared_from_this(), answer = std::move(answer),
                                        left = std::move(left)]() mutable {
      self->Write(std::move(answer), std::move(left));
    });
  }
  void PostFirst(HttpAnswer answer, std::function<void()> left) override {
    asio::post(socket_.get_executor(), [self = shared_from_this(), answer = std::move(answer),
                                        left = std::move(left)]() mutable {
      self->WriteFirst(std::move(answer), std::move(left));
    });
  }
  void PostNext(std::string part, bool last, std::function<void()> left) override {
    asio::post(socket_.get_executor(), [self = shared_from_this(), part = std::move(part), last,
                                        left = std::move(left)]() mutable {
      self->WriteNext(std::move(part), last, std::move(left));
    });
  }
  void PostCutOff() override {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      self->in_parts_ = false;
      self->gone_ = nullptr;
      self->Close();
    });
  }
  void SetGone(std::function<void()> gone) override { gone_ = std::move(gone); }

  // Since when it waits for a request, or sets up TLS, in ticks of a steady clock; 0 where it has
  // one. On any thread.
  int64_t waits_since() const { return waits_since_; }
  void set_chosen() { waits_since_ = 0; }

 private:
  // The handshake, which computes: on a thread of its own, so that it holds up no request. Until it
  // has ended, everything runs on its strand.

  void ShakeHands() {
    handshake_timer_.expires_after(std::chrono::nanoseconds(port_->options.handshake_time));
    handshake_timer_.async_wait([self = shared_from_this()](beast::error_code error) {
      if (!error && self->shaking_hands_) self->EndHandshake();
    });
    stream_.ShakeHands(handshake_strand_, [self = shared_from_this()](beast::error_code error) {
      if (error) self->EndHandshake();
      self->shaking_hands_ = false;
      self->handshake_timer_.cancel();
      if (error) return;
      self->certificate_ = self->stream_.PeerName();
      asio::post(self->socket_.get_executor(), [self] { self->AwaitHead(); });
    });
  }
  void EndHandshake() {
    beast::error_code ignored;
    socket_.close(ignored);
  }

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
    idle_until_ = Now() + std::chrono::nanoseconds(port_->options.idle);
    waits_since_ = Now().time_since_epoch().count();
    awaits_head_ = true;
    LookForHead();
  }

  void LookForHead() {
    // Empty lines in front of a request line are no part of it (RFC 9112, section 2.2).
    while (buffer_.starts_with("\r\n")) buffer_.erase(0, 2);
    const size_t end = buffer_.find(kEndOfHead);
    if (end != buffer_.npos && end + kEndOfHead.size() <= limits::kMaxHttpHeadBytes) {
      return ReadHead(end + kEndOfHead.size());
    }
    if (buffer_.size() > limits::kMaxHttpHeadBytes) {
      return Refuse(ResourceExhausted("http.head_too_large",
                                      absl::StrCat("request line and fields of more than ",
                                                   limits::kMaxHttpHeadBytes, " bytes")));
    }
    // What cannot become a head is not waited for.
    if (const absl::Status lines = CheckHeadLines(buffer_); !lines.ok()) return Refuse(lines);
    const bool first = buffer_.empty();
    if (first && port_->options.idle == 0) {
      ExpireNever();
    } else {
      ExpireAt(first ? idle_until_ : head_until_);
    }
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
  void ReadMore(std::function<void(bool came)> next) {
    if (ended_) return Close();
    next_ = std::move(next);
    if (!reading_) StartRead(parser_ ? limits::kHttpReadAheadBytes : kHeadReadBytes);
  }

  // Its bytes go to whoever waits for more by then; nobody may (Watch).
  void StartRead(size_t most) {
    reading_ = true;
    incoming_.resize(most);
    stream_.ReadSome(asio::buffer(incoming_),
                     [self = shared_from_this()](beast::error_code error, size_t bytes) {
                       self->reading_ = false;
                       self->buffer_.append(self->incoming_, 0, bytes);
                       std::string().swap(self->incoming_);
                       self->Came(error);
                     });
  }

  void Came(beast::error_code error) {
    const auto next = std::exchange(next_, nullptr);
    if (next == nullptr) {
      ended_ = ended_ || error;  // asio tells it once
      if (!error && (waiting_ || in_parts_)) ReadAhead();
      if (error && waiting_) error == asio::error::eof ? AskWhetherGone() : Gone();
      // Whether a caller that has ended its half is gone, the next part's way shows.
      if (error && in_parts_) {
        error == asio::error::eof && !stream_.has_tls() ? void(last_ = NothingFollows()) : Gone();
      }
      return;
    }
    if (error && !timed_out_) return Close();
    next(!error);
  }

  void ReadHead(size_t size) {
    std::string head = buffer_.substr(0, size);
    buffer_.erase(0, size);
    waits_since_ = 0;
    awaits_head_ = false;
    if (const absl::Status lines = CheckHeadLines(head); !lines.ok()) return Refuse(lines);
    AsHttp11(&head);
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
    request_.tls = stream_.has_tls();
    request_.certificate = certificate_;
    if (port_->options.check && !port_->options.check(request_)) {
      last_ = true;
      unread_ = parser_->chunked() || parser_->content_length().value_or(0) > 0;
      body_.emplace(port_->budget, port_->bodies, 0);
      return Dispatch();
    }
    ReadBody();
  }

  // Bodies.

  void ReadBody() {
    pace_.Start(Now());
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
    ExpireAt(pace_.Limit(0, Now()));
    stream_.WriteSome(asio::buffer(kContinue),
                      [self = shared_from_this()](beast::error_code error, size_t bytes) {
                        error || bytes < kContinue.size() ? self->Close() : self->ReadRest();
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
    ExpireAt(pace_.Limit(body_->size(), Now()));
    // What was read ahead of the answer before may be this body's.
    if (reading_) return ReadMore([this](bool came) { came ? ReadRest() : RefuseSlowBody(); });
    stream_.ReadSome(asio::buffer(room->data(), std::min(room->size(), static_cast<size_t>(left_))),
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
      ExpireAt(pace_.Limit(body_->size(), Now()));
      return ReadMore([this](bool came) { came ? ParseChunks() : RefuseSlowBody(); });
    }
    Dispatch();
  }

  void RefuseSlowBody() {
    Refuse(DeadlineExceeded("http.body_timeout", "the request's body came too slowly"));
  }

  // Answers.

  void Dispatch();

  // Hears of a caller who ends the connection while it waits for its answer. Behind more of the
  // next request than limits::kHttpReadAheadBytes, the end is seen when that is read.
  void Watch() {
    ExpireNever();
    ReadAhead();
  }
  void ReadAhead() {
    if (!reading_ && buffer_.size() < limits::kHttpReadAheadBytes) StartRead(kHeadReadBytes);
  }

  // The caller has ended its half, while it waits: it may read on, or have closed all of it. TCP
  // tells these apart only where something is sent: a socket that is closed answers with a reset.
  // HTTP has what may be sent ahead of an answer (RFC 9110, section 15.2), but not in its version
  // 1.0, whose callers are answered all the same. Within TLS the end is an end.
  void AskWhetherGone() {
    if (stream_.has_tls()) return Gone();
    last_ = NothingFollows();
    if (parser_->get().version() < 11) return;
    socket_.async_wait(tcp::socket::wait_error,
                       [self = shared_from_this()](beast::error_code error) {
                         if (!error && self->waiting_) self->Gone();
                       });
    // The socket does not block. Where it has no room, because answers before this one are still on
    // their way, these are what a closed socket answers with a reset.
    beast::error_code error;
    const size_t sent = socket_.write_some(asio::buffer(kContinue), error);
    if (error != asio::error::would_block && sent < kContinue.size()) Gone();
  }

  // A caller may have sent its last requests before it ended its half.
  bool NothingFollows() const { return last_ || buffer_.empty(); }

  // Nobody reads an answer any more.
  void Gone() {
    Close();
    const auto gone = std::exchange(gone_, nullptr);
    if (gone != nullptr && (waiting_ || in_parts_)) gone();
  }

  void Write(HttpAnswer answer, std::function<void()> left) {
    gone_ = nullptr;
    WriteHead(std::move(answer), std::move(left));
  }

  void WriteFirst(HttpAnswer answer, std::function<void()> left) {
    in_parts_ = true;
    WriteHead(std::move(answer), std::move(left));
  }

  void WriteHead(HttpAnswer answer, std::function<void()> left) {
    waiting_ = false;
    left_callback_ = std::move(left);
    if (!socket_.is_open()) return Left();
    const bool is_http_1_0 = parser_ && parser_->get().version() < 11;
    keep_alive_ = !last_ && parser_ && parser_->keep_alive() && !port_->draining &&
                  !(in_parts_ && is_http_1_0);
    framing_ = {.keep_alive = keep_alive_,
                .is_http_1_0 = is_http_1_0,
                .has_body = request_method_ != http::verb::head,
                .in_parts = in_parts_};
    answer.fields.emplace_back("Date", HttpDate(std::time(nullptr)));
    answer_.emplace(std::move(answer), framing_);
    pace_.Start(Now());
    WriteSome();
  }

  void WriteNext(std::string part, bool last, std::function<void()> left) {
    left_callback_ = std::move(left);
    if (last) {
      in_parts_ = false;
      gone_ = nullptr;
      keep_alive_ = keep_alive_ && !last_ && !port_->draining;
    }
    if (!socket_.is_open()) return Left();
    answer_.emplace(std::move(part), framing_, last);
    pace_.Start(Now());
    WriteSome();
  }

  void WriteSome() {
    ExpireAt(pace_.Limit(answer_->sent(), Now()));
    stream_.WriteSome(answer_->Next(),
                      [self = shared_from_this()](beast::error_code error, size_t bytes) {
                        self->Wrote(error, bytes);
                      });
  }

  void Wrote(beast::error_code error, size_t bytes) {
    if (error) {
      in_parts_ ? Gone() : Close();
      return Left();
    }
    answer_->Sent(bytes);
    if (!answer_->done()) return WriteSome();
    if (in_parts_) ExpireNever();
    Left();
    if (in_parts_) return;
    keep_alive_ ? AwaitHead() : Linger();
  }

  void Left() {
    answer_.reset();
    if (const auto left = std::exchange(left_callback_, nullptr); left != nullptr) left();
  }

  // What the connection would bring behind this cannot be told apart from what was refused.
  void Refuse(const absl::Status& why) {
    last_ = unread_ = true;
    body_.reset();
    request_method_ = request_.method;
    Write(ErrorAnswer(why), nullptr);
  }

  // Closing at once would reset the connection where the caller still sends, and take the answer
  // away from it (RFC 9112, section 9.6).
  void Linger() {
    lingering_ = true;
    ExpireAt(Now() + std::chrono::seconds(limits::kHttpLingerSeconds));
    // Within TLS nothing can be read behind the end that has been told.
    if (unread_ && stream_.has_tls()) return Discard();
    stream_.SayEnd([self = shared_from_this()] {
      beast::error_code error;
      self->socket_.shutdown(tcp::socket::shutdown_send, error);
      if (error || self->timed_out_) return self->Close();
      self->Discard();
    });
  }
  void Discard() {
    ReadMore([this](bool came) {
      buffer_.clear();
      came && !timed_out_ ? Discard() : Close();
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
          // What TLS waits for to tell the end is not ended by cancelling once.
          self->lingering_ ? self->socket_.close(ignored) : self->socket_.cancel(ignored);
        });
  }
  void ExpireNever() {
    ++timer_number_;
    timer_.cancel();
  }

  std::atomic<int64_t> waits_since_ = Now().time_since_epoch().count();
  const Port port_;
  HttpStream stream_;
  tcp::socket& socket_;  // the stream's
  asio::steady_timer timer_;
  bool shaking_hands_;
  bool awaits_head_ = false;
  asio::strand<asio::io_context::executor_type> handshake_strand_;
  asio::steady_timer handshake_timer_;
  std::string certificate_;  // whom the caller's names
  uint64_t timer_number_ = 0;
  bool timed_out_ = false;  // what waited for the socket waits no more
  std::string buffer_;      // read, and not yet looked at
  bool reading_ = false;    // into
  std::string incoming_;
  std::function<void(bool came)> next_;  // who waits for it
  bool ended_ = false;                   // nothing more comes
  SteadyTime head_until_, idle_until_;
  TransferPace pace_;  // of the body, then of the answer
  std::optional<Parser> parser_;
  std::optional<RequestBody> body_;
  HttpRequest request_;                          // until it is handed on
  http::verb request_method_ = http::verb::get;  // of the one that is answered
  int64_t left_ = 0;                             // of a body whose length is known
  int64_t chunks_ = 0;
  std::function<void(uint64_t, beast::string_view, beast::error_code&)> on_chunk_;
  bool waiting_ = false;   // for an answer
  bool in_parts_ = false;  // an answer is under way whose last part has not come
  bool last_ = false;      // no request follows
  bool unread_ = false;    // its caller may still send what belongs to the last
  bool lingering_ = false;
  bool keep_alive_ = false;
  std::function<void()> gone_, left_callback_;
  AnswerFraming framing_;                 // of the answer under way
  std::optional<OutgoingAnswer> answer_;  // until it, or a part of it, has left
};

void HttpSession::Dispatch() {
  request_.arrived = port_->clock.Now();
  request_.body = body_->Bytes();
  request_.body_bytes = body_->size();
  body_.reset();
  request_method_ = request_.method;
  const auto exchange =
      std::make_shared<SessionExchange>(shared_from_this(), port_, std::move(request_));
  request_ = HttpRequest();
  if (port_->Closed()) return exchange->Drop();
  waiting_ = true;
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
  const auto session =
      std::make_shared<HttpSession>(std::move(port), std::move(socket), shared.tls.Current());
  {
    // Not held when a session goes: that takes it too.
    MutexLock lock(shared.mutex);
    if (shared.closed) return false;
    shared.sessions.emplace(session.get(), session);
  }
  session->Start();
  return true;
}

bool EndLongestIdle(HttpPort& port) {
  std::shared_ptr<HttpSession> longest;
  std::vector<std::shared_ptr<HttpSession>> others;  // their last owner is not to go under the lock
  {
    MutexLock lock(port.mutex);
    others.reserve(port.sessions.size());
    for (const auto& [session, weak] : port.sessions) {
      std::shared_ptr<HttpSession> alive = weak.lock();
      if (alive == nullptr) continue;
      const int64_t since = alive->waits_since();
      if (since != 0 && (longest == nullptr || since < longest->waits_since())) {
        longest.swap(alive);
      }
      others.push_back(std::move(alive));
    }
  }
  if (longest == nullptr) return false;
  longest->set_chosen();
  longest->Abort(/*if_idle=*/true);
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
