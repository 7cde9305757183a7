#include "server/lifecycle/listen_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace fovea {
namespace {

using ::testing::HasSubstr;

std::string Says(const absl::Status& status) { return std::string(status.message()); }

TEST(ListenAddressTest, AFreePortOfThisMachineIsFine) {
  for (const char* host : {"127.0.0.1", "0.0.0.0", "localhost"}) {
    EXPECT_TRUE(CheckListenAddress(host, 0, "--grpc-port").ok()) << host;
  }
}

TEST(ListenAddressTest, AnUnknownHostIsNotSaidToBeInUse) {
  const absl::Status status = CheckListenAddress("no.such.host.invalid", 8001, "--grpc-port");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Says(status), HasSubstr("--host 'no.such.host.invalid' is no address and no name"));
  EXPECT_THAT(Says(status), HasSubstr("0.0.0.0 for every interface"));
}

TEST(ListenAddressTest, AnotherMachinesAddressIsToldApart) {
  const absl::Status status = CheckListenAddress("192.0.2.1", 0, "--grpc-port");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Says(status), HasSubstr("192.0.2.1 is not an address of this machine"));
}

TEST(ListenAddressTest, APortThatIsTakenIsToldWithItsFlag) {
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  const absl::Status status = CheckListenAddress("127.0.0.1", port, "--metrics-port");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Says(status), HasSubstr("another program listens on port " + std::to_string(port)));
  EXPECT_THAT(Says(status), HasSubstr("--metrics-port"));
  close(taken);
  EXPECT_TRUE(CheckListenAddress("127.0.0.1", port, "--metrics-port").ok());
}

}  // namespace
}  // namespace fovea
