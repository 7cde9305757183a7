#include "server/transport/http/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/error.hpp>
#include <chrono>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "server/core/files_for_callers.h"
#include "server/core/log.h"
#include "server/core/start_threads.h"
#include "server/transport/http/http_session.h"

namespace fovea {

namespace {

// Connections beyond the limit that may still be closing to make room. They close on other threads,
// which may be busy.
constexpr int kMostEnding = 16;
// New connections beyond these wait for one of them to close, together up to kMostWaits times this
// long, and are then refused until one has.
constexpr auto kWait = std::chrono::milliseconds(1);
constexpr int kMostWaits = 50;

void Run(boost::asio::io_context& io) {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      // The connection whose step this was has ended with it.
      if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) continue;
      Log(LogLevel::kError, absl::StrCat("HTTP: ", error.what()));
    }
  }
}

// Has the kernel ask a caller that says nothing, and end a connection that nobody answers on: one
// that may stay for ever (--http-max-connection-idle 0) would keep its place.
void FindWhetherItIsThere(int connection) {
  const int on = 1, idle_seconds = 60, between_seconds = 10, unanswered = 3;
  setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(connection, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
  setsockopt(connection, IPPROTO_TCP, TCP_KEEPINTVL, &between_seconds, sizeof(between_seconds));
  setsockopt(connection, IPPROTO_TCP, TCP_KEEPCNT, &unanswered, sizeof(unanswered));
}

}  // namespace

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(const HttpServerOptions& options,
                                                               MemoryBudget& budget, Clock& clock,
                                                               HttpHandler handler) {
  auto port = std::make_shared<HttpPort>(options, budget, clock, std::move(handler));
  FOVEA_ASSIGN_OR_RETURN(port->listener,
                         ConnectionListener::Listen(options.host, options.port, options.port_flag));
  port->work.emplace_back(port->io.get_executor());
  port->work.emplace_back(port->slow.get_executor());
  port->handshake_work.emplace(port->handshake_io.get_executor());
  std::unique_ptr<HttpServer> server(new HttpServer(port));
  FOVEA_RETURN_IF_ERROR(StartThreads([&] {
    const tcp::socket first(port->io);  // makes what asio waits with, which may find no file left
    for (int i = 0; i < options.threads; ++i) {
      port->threads.emplace_back([io = &port->io] { Run(*io); });
    }
    for (int i = 0; i < options.slow_threads; ++i) {
      port->threads.emplace_back([io = &port->slow] { Run(*io); });
    }
    if (options.tls) port->handshakes = std::thread([io = &port->handshake_io] { Run(*io); });
  }));
  FOVEA_RETURN_IF_ERROR(
      port->listener->Start([port = port.get(), waits = 0](int connection) mutable {
        FileDescriptor file(connection);
        const int most = std::min(port->options.max_connections, FilesForCallers() / 2);
        for (; port->connections >= most + kMostEnding; ++waits) {
          if (waits == kMostWaits || port->draining) return;
          std::this_thread::sleep_for(kWait);
        }
        waits = 0;
        if (port->connections >= most && !EndLongestIdle(*port)) return;
        tcp::socket socket(asio::make_strand(port->io));
        beast::error_code error;
        sockaddr_storage address{};
        socklen_t length = sizeof(address);
        if (getsockname(connection, reinterpret_cast<sockaddr*>(&address), &length) != 0) return;
        socket.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), file.get(), error);
        if (error) return;
        file.Release();  // the socket's now
        socket.non_blocking(true, error);
        FindWhetherItIsThere(socket.native_handle());
        StartHttpSession(port->shared_from_this(), std::move(socket));
      }));
  return server;
}

HttpServer::HttpServer(std::shared_ptr<HttpPort> port) : port_(std::move(port)) {}

HttpServer::~HttpServer() { Close(); }

int HttpServer::port() const { return port_->listener->port(); }

void HttpServer::DrainStreams() { port_->draining = true; }

void HttpServer::StopListening() { port_->listener->Stop(); }

void HttpServer::Close() {
  port_->draining = true;
  StopListening();
  {
    MutexLock lock(port_->mutex);
    if (std::exchange(port_->closed, true)) return;
  }
  AbortHttpSessions(*port_);
  {
    MutexLock lock(port_->mutex);
    while (port_->exchanges > 0) port_->changed.Wait(port_->mutex);
  }
  // The threads end with the last connection; handshakes first, which go on to the others.
  port_->handshake_work.reset();
  if (port_->handshakes.joinable()) port_->handshakes.join();
  port_->work.clear();
  for (std::thread& thread : port_->threads) thread.join();
}

}  // namespace fovea
