#include "server/core/listen.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "base/status.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;

std::string Says(const absl::Status& status) { return std::string(status.message()); }

bool MachineHasIpv6() {
  const FileDescriptor file(socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return file.get() >= 0 &&
         bind(file.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

// Whether somebody listens there.
bool Connects(bool ipv6, int port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  six.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  four.sin_port = htons(static_cast<uint16_t>(port));
  const FileDescriptor file(socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
  return connect(file.get(),
                 ipv6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four),
                 ipv6 ? sizeof(six) : sizeof(four)) == 0;
}

TEST(ListenTest, TakesAFreePortOfThisMachine) {
  for (const char* host : {"127.0.0.1", "0.0.0.0", "localhost"}) {
    const absl::StatusOr<ListeningSockets> listening = Listen(host, 0, "--grpc-port");
    ASSERT_TRUE(listening.ok()) << host << ": " << listening.status();
    EXPECT_GT(listening->port, 0);
    for (const ListeningSockets::Socket& socket : listening->sockets) {
      EXPECT_TRUE(Connects(socket.ipv6, listening->port)) << host;
    }
  }
}

// As in a URL, and as an address is written.
TEST(ListenTest, TakesAnIpv6AddressWithItsBracketsAndWithout) {
  if (!MachineHasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  for (const char* host : {"[::1]", "::1"}) {
    const absl::StatusOr<ListeningSockets> listening = Listen(host, 0, "--grpc-port");
    ASSERT_TRUE(listening.ok()) << host << ": " << listening.status();
    ASSERT_EQ(listening->sockets.size(), 1u);
    EXPECT_TRUE(Connects(/*ipv6=*/true, listening->port)) << host;
    EXPECT_FALSE(Connects(/*ipv6=*/false, listening->port)) << host;
  }
}

TEST(ListenTest, AnUnknownHostIsNotSaidToBeInUse) {
  const std::string host(64, 'x');  // longer than DNS carries: nobody is asked
  const absl::Status status = Listen(host, 8001, "--grpc-port").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Says(status), HasSubstr("--host '" + host + "' is no address and no name"));
  EXPECT_THAT(Says(status), HasSubstr("0.0.0.0 for every interface"));
}

TEST(ListenTest, AnotherMachinesAddressIsToldApart) {
  const absl::Status status = Listen("192.0.2.1", 0, "--grpc-port").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), "server.not_our_address");
  EXPECT_THAT(Says(status), HasSubstr("192.0.2.1 is not an address of this machine"));
}

TEST(ListenTest, APortThatIsTakenIsToldWithItsFlag) {
  absl::StatusOr<ListeningSockets> first = Listen("127.0.0.1", 0, "--grpc-port");
  ASSERT_TRUE(first.ok()) << first.status();
  const int port = first->port;
  const absl::Status status = Listen("127.0.0.1", port, "--metrics-port").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Says(status), HasSubstr("another program listens on port " + std::to_string(port) +
                                      " of 127.0.0.1"));
  EXPECT_THAT(Says(status), HasSubstr("--metrics-port"));
  first->sockets.clear();
  EXPECT_TRUE(Listen("127.0.0.1", port, "--metrics-port").ok());
}

}  // namespace
}  // namespace fovea
