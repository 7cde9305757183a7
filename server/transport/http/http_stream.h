// A connection's bytes, as they are or within TLS.
#pragma once

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <optional>
#include <string>
#include <utility>

#include "server/transport/connections/tls_certificate.h"

namespace fovea {

// Not thread-safe. One read and one write at a time; handlers are called as asio calls them.
class HttpStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  // `tls`: null without TLS; needed in here only.
  HttpStream(Socket socket, boost::asio::ssl::context* tls) : socket_(std::move(socket)) {
    if (tls != nullptr) tls_.emplace(socket_, *tls);
  }

  // For what is the same with TLS and without: the executor, cancelling, closing. Bytes that are
  // read from it are not decrypted.
  Socket& socket() { return socket_; }
  bool has_tls() const { return tls_.has_value(); }

  // Whom the caller's certificate names; empty where it has shown none.
  std::string PeerName() { return tls_ ? fovea::PeerName(tls_->native_handle()) : ""; }

  // `handler(error)`; it and the handshake's computations run on `executor`. Only with TLS.
  template <typename Executor, typename Handler>
  void ShakeHands(const Executor& executor, Handler handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server,
                          boost::asio::bind_executor(executor, std::move(handler)));
  }

  // `handler(error, bytes)`.
  template <typename Buffers, typename Handler>
  void ReadSome(const Buffers& buffers, Handler handler) {
    tls_ ? tls_->async_read_some(buffers, std::move(handler))
         : socket_.async_read_some(buffers, std::move(handler));
  }
  template <typename Buffers, typename Handler>
  void WriteSome(const Buffers& buffers, Handler handler) {
    tls_ ? tls_->async_write_some(buffers, std::move(handler))
         : socket_.async_write_some(buffers, std::move(handler));
  }

  // Tells that no more is written, before the socket's own shutdown: `handler()`. With TLS it waits
  // for the caller to say the same, or for anything else from it.
  template <typename Handler>
  void SayEnd(Handler handler) {
    if (!tls_) return handler();
    tls_->async_shutdown([handler = std::move(handler)](const auto&) { handler(); });
  }

 private:
  Socket socket_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

}  // namespace fovea
