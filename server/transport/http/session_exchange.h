// An exchange of a session's: where it is answered, deferred and compressed.
#pragma once

#include <functional>
#include <memory>

#include "server/transport/http/content_coding.h"
#include "server/transport/http/http_exchange.h"
#include "server/transport/http/http_session.h"

namespace fovea {

// The session, as its exchange sees it.
class ExchangeOwner {
 public:
  // From any thread; `left` as HttpExchange::Answer's.
  virtual void PostAnswer(HttpAnswer answer, std::function<void()> left) = 0;
  // The same of answers in parts.
  virtual void PostFirst(HttpAnswer answer, std::function<void()> left) = 0;
  virtual void PostNext(std::string part, bool last, std::function<void()> left) = 0;
  // The last part does not come.
  virtual void PostCutOff() = 0;
  // Whom HttpExchange::OnGone names; before the handler returns.
  virtual void SetGone(std::function<void()> gone) = 0;
  // From any thread: nobody is told any more.
  virtual void ForgetGone() = 0;

 protected:
  ~ExchangeOwner() = default;
};

class SessionExchange final : public HttpExchange,
                              public std::enable_shared_from_this<SessionExchange> {
 public:
  SessionExchange(std::shared_ptr<ExchangeOwner> session, std::shared_ptr<HttpPort> port,
                  HttpRequest request);
  // Answers where nobody has: its handler had no memory.
  ~SessionExchange() override;

  // Nobody is to answer it: the server has closed.
  void Drop() { answered_ = true; }

  HttpRequest& request() override { return request_; }
  void OnGone(std::function<void()> gone) override { session_->SetGone(std::move(gone)); }
  void Defer(absl::AnyInvocable<void()> work) override;
  void Answer(HttpAnswer answer, std::function<void()> left) override;
  void Answer(HttpAnswer answer) override;
  void AnswerFirst(HttpAnswer answer, std::function<void()> next) override;
  void AnswerNext(std::string part, std::function<void()> next) override;
  void AnswerLast(std::string part) override;

 private:
  void Send(HttpAnswer answer, std::function<void()> left);

  std::shared_ptr<ExchangeOwner> session_;
  const std::shared_ptr<HttpPort> port_;
  HttpRequest request_;
  const ContentCoding coding_;  // of the answer, where it is worth it
  bool answered_ = false;
  bool in_parts_ = false;  // of which the last has not come
};

}  // namespace fovea
