// The connections of an HTTP port, each on a strand of its own: heads, bodies and answers, and what
// they may take.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/core/mutex.h"
#include "server/transport/connections/connection_listener.h"
#include "server/transport/http/http_server.h"
#include "server/transport/http/tls_contexts.h"

namespace fovea {

class HttpSession;

// What the connections of one port share. Thread-safe.
struct HttpPort : std::enable_shared_from_this<HttpPort> {
  HttpPort(const HttpServerOptions& server_options, MemoryBudget& memory_budget,
           Clock& server_clock, HttpHandler request_handler)
      : options(server_options),
        budget(memory_budget),
        bodies(memory_budget.capacity() / 2, server_clock),
        clock(server_clock),
        tls(server_options.tls),
        handler(std::move(request_handler)) {}

  bool Closed() {
    MutexLock lock(mutex);
    return closed;
  }
  void ExchangeEnded() {
    MutexLock lock(mutex);
    --exchanges;
    changed.NotifyAll();
  }

  const HttpServerOptions options;
  MemoryBudget& budget;
  MemoryBudget bodies;  // a part of it: who sends and does not end leaves the rest to others
  Clock& clock;
  TlsContexts tls;  // the listener's
  const HttpHandler handler;
  std::atomic<bool> draining = false;
  std::atomic<int> connections = 0;
  using Work = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;
  boost::asio::io_context io, handshake_io;
  boost::asio::io_context slow;  // what takes long (HttpExchange::Defer)
  std::vector<Work> work;        // of the others: as long as it is there their threads do not end
  std::optional<Work> handshake_work;
  std::vector<std::thread> threads;
  std::thread handshakes;  // with TLS
  std::unique_ptr<ConnectionListener> listener;
  Mutex mutex;
  CondVar changed;
  bool closed ABSL_GUARDED_BY(mutex) = false;
  int exchanges ABSL_GUARDED_BY(mutex) = 0;
  std::unordered_map<HttpSession*, std::weak_ptr<HttpSession>> sessions ABSL_GUARDED_BY(mutex);
};

// Reads requests from `socket`, non-blocking and on a strand of the port's, until the connection
// ends. False, and it is closed, where the port has been closed.
bool StartHttpSession(std::shared_ptr<HttpPort> port, boost::asio::ip::tcp::socket socket);

// Closes the connection that has been idle longest. False if none is idle.
bool EndLongestIdle(HttpPort& port);

// Ends all connections, and tells who waits for an answer of each that nobody reads it.
void AbortHttpSessions(HttpPort& port);

}  // namespace fovea
