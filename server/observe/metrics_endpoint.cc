#include "server/observe/metrics_endpoint.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/check.h"
#include "server/core/limits.h"
#include "server/core/status.h"

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

  // Takes the next connection, when there is a place for it.
  void Accept() {
    if (places == 0) {
      full = true;
      return;
    }
    acceptor.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        // Out of descriptors, most likely: trying again at once would only burn a core.
        pause.expires_after(kAcceptPause);
        pause.async_wait([this](beast::error_code stopped) {
          if (!stopped) Accept();
        });
        return;
      }
      --places;
      const std::shared_ptr<void> place(nullptr, [this](void*) { GiveBack(); });
      std::make_shared<Session>(std::move(socket), text, place)->Read();
      Accept();
    });
  }

  void GiveBack() {
    ++places;
    if (std::exchange(full, false)) Accept();
  }

  const MakeText text;
  int places;         // for connections
  bool full = false;  // the next connection waits for one
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer pause{io};
  std::thread thread;
};

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Create(const std::string& host,
                                                                         int port, MakeText text,
                                                                         int max_connections) {
  FOVEA_CHECK(max_connections > 0);
  auto state = std::make_unique<State>(std::move(text), max_connections);
  beast::error_code error;
  tcp::resolver resolver(state->io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (!error) state->acceptor.open(found->endpoint().protocol(), error);
  if (!error) state->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) state->acceptor.bind(found->endpoint(), error);
  if (!error) state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Unavailable("metrics.bind", absl::StrCat("cannot listen on ", host, ":", port,
                                                    " for metrics: ", error.message()));
  }
  state->Accept();
  state->thread = std::thread([state = state.get()] { state->io.run(); });
  return std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(std::move(state)));
}

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}

MetricsEndpoint::~MetricsEndpoint() {
  state_->io.stop();
  state_->thread.join();
  state_->full = false;  // the places of connections that go now are nobody's
}

int MetricsEndpoint::port() const { return state_->acceptor.local_endpoint().port(); }

}  // namespace fovea
