#include "server/observe/metrics_endpoint.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/listen.h"
#include "server/core/start_threads.h"

namespace fovea {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr auto kTimeout = std::chrono::seconds(limits::kMetricsSeconds);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

using MakeText = std::function<std::string()>;

http::response<http::string_body> Answer(const http::request<http::string_body>& request,
                                         const MakeText& text) {
  http::response<http::string_body> response(http::status::ok, request.version());
  response.keep_alive(request.keep_alive());
  response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
  const beast::string_view path = request.target().substr(0, request.target().find('?'));
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    response.result(http::status::method_not_allowed);
    response.set(http::field::allow, "GET, HEAD");
  } else if (path != "/metrics") {
    response.result(http::status::not_found);
    response.body() = "metrics are at /metrics\n";
  } else {
    response.body() = text();
  }
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

// One connection: reads a request, answers it, reads the next. Keeps itself alive while it waits.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // `place` is one of the endpoint's, held as long as the connection is open.
  Session(tcp::socket socket, const MakeText& text, std::shared_ptr<void> place)
      : place_(std::move(place)), stream_(std::move(socket)), text_(text) {}

  void Read() {
    parser_.emplace();
    parser_->header_limit(limits::kMaxMetricsHeaderBytes);
    parser_->body_limit(limits::kMaxMetricsBodyBytes);
    stream_.expires_after(kTimeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, size_t) {
                       if (!error) self->Write();
                     });
  }

 private:
  void Write() {
    response_ = Answer(parser_->get(), text_);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (error) return;
                        if (self->response_.keep_alive()) {
                          self->Read();
                        } else {
                          self->stream_.socket().shutdown(tcp::socket::shutdown_send, error);
                        }
                      });
  }

  const std::shared_ptr<void> place_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{limits::kMaxMetricsHeaderBytes + limits::kMaxMetricsBodyBytes};
  const MakeText& text_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

struct MetricsEndpoint::State {
  State(MakeText make_text, int connections) : text(std::move(make_text)), places(connections) {}

  // One of the addresses.
  struct Listener {
    explicit Listener(asio::io_context& io) : acceptor(io), pause(io) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    bool waits = false;  // for a place
  };

  // Takes the next connection, when there is a place for it.
  void Accept(Listener& listener) {
    listener.acceptor.async_wait(
        tcp::acceptor::wait_read, [this, &listener](beast::error_code error) {
          if (error == asio::error::operation_aborted) return;
          // Looked at now: the place that was free may have gone to another address's connection.
          if (!error && places == 0) {
            listener.waits = true;
            return;
          }
          tcp::socket socket(io);
          if (!error) listener.acceptor.accept(socket, error);
          if (error) {
            // Out of descriptors, most likely: trying again at once would only burn a core.
            listener.pause.expires_after(kAcceptPause);
            listener.pause.async_wait([this, &listener](beast::error_code stopped) {
              if (!stopped) Accept(listener);
            });
            return;
          }
          --places;
          const std::shared_ptr<void> place(nullptr, [this](void*) { GiveBack(); });
          std::make_shared<Session>(std::move(socket), text, place)->Read();
          Accept(listener);
        });
  }

  void GiveBack() {
    ++places;
    if (closing) return;
    for (Listener& listener : listeners) {
      if (std::exchange(listener.waits, false)) Accept(listener);
    }
  }

  const MakeText text;
  int places;            // for connections
  bool closing = false;  // places that are given back now are nobody's
  int port = 0;
  asio::io_context io{1};
  std::list<Listener> listeners;
  std::thread thread;
};

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Create(const std::string& host,
                                                                         int port, MakeText text,
                                                                         int max_connections) {
  FOVEA_CHECK(max_connections > 0);
  auto state = std::make_unique<State>(std::move(text), max_connections);
  FOVEA_ASSIGN_OR_RETURN(ListeningSockets listening, Listen(host, port, "--metrics-port"));
  state->port = listening.port;
  for (ListeningSockets::Socket& socket : listening.sockets) {
    State::Listener& listener = state->listeners.emplace_back(state->io);
    beast::error_code error;
    listener.acceptor.assign(socket.ipv6 ? tcp::v6() : tcp::v4(), socket.file.get(), error);
    if (!error) socket.file.Release();  // the acceptor's now
    if (!error) listener.acceptor.non_blocking(true, error);
    if (error) {
      return Unavailable("metrics.listen", absl::StrCat("cannot listen on ", host, ":", port,
                                                        " for metrics: ", error.message()));
    }
    state->Accept(listener);
  }
  FOVEA_RETURN_IF_ERROR(StartThreads(
      [&] { state->thread = std::thread([state = state.get()] { state->io.run(); }); }));
  return std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(std::move(state)));
}

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}

MetricsEndpoint::~MetricsEndpoint() {
  state_->io.stop();
  state_->thread.join();
  state_->closing = true;
}

int MetricsEndpoint::port() const { return state_->port; }

}  // namespace fovea
