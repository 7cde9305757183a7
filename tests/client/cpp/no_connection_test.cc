#include "client/cpp/no_connection.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "client/cpp/client.h"

namespace fovea::client {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Listens on the loopback interface and says `greeting` to whoever connects, as a server of another
// protocol does.
class Stranger {
 public:
  explicit Stranger(std::string greeting) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in local{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(local);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&local), size), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&local), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(local.sin_port));
    thread_ = std::jthread([this, greeting = std::move(greeting)] {
      for (int peer; (peer = ::accept(socket_, nullptr, nullptr)) >= 0; ::close(peer)) {
        char hello[64];
        if (::recv(peer, hello, sizeof(hello), 0) > 0) {
          ::send(peer, greeting.data(), greeting.size(), MSG_NOSIGNAL);
        }
      }
    });
  }
  ~Stranger() {
    ::shutdown(socket_, SHUT_RDWR);  // ends the accept
    thread_.join();
    ::close(socket_);
  }

  const std::string& address() const { return address_; }

 private:
  int socket_;
  std::string address_;
  std::jthread thread_;
};

std::string WhyNot(const std::string& address) {
  const absl::Status status = Client::Connect(address).status();
  EXPECT_TRUE(IsUnreachable(status)) << status;
  return std::string(status.message());
}

TEST(NoConnection, WhereNobodyListensSaysSo) {
  std::string address;
  { address = Stranger("").address(); }
  EXPECT_EQ(WhyNot(address), "nothing listens at " + address + ": is fovea-server running there?");
}

TEST(NoConnection, ToAServerBehindTlsSaysThatItIsNotPlainGrpc) {
  const std::string alert("\x15\x03\x01\x00\x02\x02\x46", 7);  // protocol_version
  const Stranger server(alert);
  EXPECT_EQ(WhyNot(server.address()),
            server.address() +
                " does not speak gRPC: is it another of the server's ports (gRPC's default is "
                "8001), or does it need TLS?");
}

TEST(NoConnection, ToAnHttpServerSaysThatItIsNotGrpc) {
  const Stranger server("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  EXPECT_THAT(WhyNot(server.address()), HasSubstr(" does not speak gRPC: "));
}

// No name that a server of names is asked for: it has a space.
TEST(NoConnection, ToAnUnknownHostNamesTheHost) {
  const std::string why = WhyNoConnection("no host:8001");
  EXPECT_THAT(why, StartsWith("the host 'no host' cannot be found ("));
  EXPECT_THAT(why, EndsWith("): is it spelt right?"));
  EXPECT_THAT(WhyNoConnection("[no host]:8001"), StartsWith("the host 'no host' cannot be found"));
}

}  // namespace
}  // namespace fovea::client
