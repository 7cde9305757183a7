#include "server/transport/http/session_exchange.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "base/limits.h"
#include "base/out_of_memory.h"
#include "server/core/request_memory.h"
#include "server/transport/http/http_status.h"

namespace fovea {

SessionExchange::SessionExchange(std::shared_ptr<ExchangeOwner> session,
                                 std::shared_ptr<HttpPort> port, HttpRequest request)
    : session_(std::move(session)),
      port_(std::move(port)),
      request_(std::move(request)),
      coding_(PreferredCoding(request_.Field(boost::beast::http::field::accept_encoding))) {
  MutexLock lock(port_->mutex);
  ++port_->exchanges;
}

SessionExchange::~SessionExchange() {
  if (!answered_) session_->PostAnswer(ErrorAnswer(OutOfMemory()), nullptr);
  if (in_parts_) session_->PostCutOff();
  session_.reset();
  request_ = HttpRequest();  // its body counts in a budget that may go when exchanges have ended
  port_->ExchangeEnded();
}

void SessionExchange::Defer(absl::AnyInvocable<void()> work) {
  boost::asio::post(port_->slow, [self = shared_from_this(), work = std::move(work)]() mutable {
    const absl::Status done = OrOutOfMemory([&] {
      std::exchange(work, nullptr)();
      return absl::OkStatus();
    });
    // As where a handler fails (Dispatch).
    if (!done.ok()) self->session_->ForgetGone();
  });
}

void SessionExchange::Answer(HttpAnswer answer, std::function<void()> left) {
  const bool worth = request_.may_compress && IsWorthCompressing(answer);
  // Caches must know that answers differ by Accept-Encoding (RFC 9110, section 12.5.5).
  if (worth) answer.fields.emplace_back("Vary", "Accept-Encoding");
  if (!worth || coding_ == ContentCoding::kIdentity) {
    return Send(std::move(answer), std::move(left));
  }
  Defer([self = shared_from_this(), answer = std::move(answer), left = std::move(left)]() mutable {
    Compress(self->coding_, self->port_->budget, &answer);
    self->Send(std::move(answer), std::move(left));
  });
}

void SessionExchange::Answer(HttpAnswer answer) {
  const int64_t bytes = BodyBytes(answer);
  if (bytes <= limits::kUncountedAnswerBytes) return Answer(std::move(answer), nullptr);
  const auto memory = std::make_shared<RequestMemory>(port_->budget);
  if (const absl::Status taken = memory->Take(bytes); !taken.ok()) {
    return Send(ErrorAnswer(taken), nullptr);
  }
  Answer(std::move(answer), [memory] { memory->Release(); });
}

void SessionExchange::AnswerFirst(HttpAnswer answer, std::function<void()> next) {
  answered_ = in_parts_ = true;
  session_->PostFirst(std::move(answer), std::move(next));
}

void SessionExchange::AnswerNext(std::string part, std::function<void()> next) {
  session_->PostNext(std::move(part), /*last=*/false, std::move(next));
}

void SessionExchange::AnswerLast(std::string part) {
  in_parts_ = false;
  session_->PostNext(std::move(part), /*last=*/true, nullptr);
}

void SessionExchange::Send(HttpAnswer answer, std::function<void()> left) {
  answered_ = true;
  session_->PostAnswer(std::move(answer), std::move(left));
}

}  // namespace fovea
