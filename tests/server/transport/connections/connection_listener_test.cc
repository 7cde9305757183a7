#include "server/transport/connections/connection_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/core/testing/notification.h"
#include "server/core/testing/watched_thread.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;

// Connects to a numeric address.
FileDescriptor Connect(const char* address, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  EXPECT_EQ(getaddrinfo(address, std::to_string(port).c_str(), &hints, &found), 0);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  FileDescriptor file(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(file.get(), found->ai_addr, found->ai_addrlen), 0) << address;
  return file;
}

void ExpectConnections(ConnectionListener& listener, const char* address) {
  Notification accepted;
  ASSERT_TRUE(listener
                  .Start([&](int connection) {
                    const FileDescriptor closed(connection);
                    accepted.Notify();
                  })
                  .ok());
  const FileDescriptor caller = Connect(address, listener.port());
  accepted.Wait();
  listener.Stop();
}

TEST(ConnectionListenerTest, ListensOnANamesAddresses) {
  const auto listener = ConnectionListener::Listen("localhost", 0, "--grpc-port");
  ASSERT_TRUE(listener.ok()) << listener.status();
  ExpectConnections(**listener, "127.0.0.1");
}

TEST(ConnectionListenerTest, ListensOnAnIpv6AddressInBrackets) {
  const auto listener = ConnectionListener::Listen("[::1]", 0, "--grpc-port");
  if (ReasonOf(listener.status()) == "server.not_our_address") {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  ASSERT_TRUE(listener.ok()) << listener.status();
  ExpectConnections(**listener, "::1");
}

TEST(ConnectionListenerTest, APortThatIsTakenIsToldWithTheFlag) {
  const auto first = ConnectionListener::Listen("127.0.0.1", 0, "--grpc-port");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string port = std::to_string((*first)->port());
  const absl::Status second =
      ConnectionListener::Listen("127.0.0.1", (*first)->port(), "--grpc-port").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("another program listens on port " + port + " of 127.0.0.1"));
  EXPECT_THAT(std::string(second.message()), HasSubstr("--grpc-port"));
}

// Closing the port resets what has not been accepted: such a caller would not hear that we end.
TEST(ConnectionListenerTest, WhoIsConnectedWhenItStopsIsHandedOn) {
  const auto listener = ConnectionListener::Listen("127.0.0.1", 0, "--grpc-port");
  ASSERT_TRUE(listener.ok()) << listener.status();
  Notification first, go_on;
  int handed_on = 0;
  ASSERT_TRUE((*listener)
                  ->Start([&](int connection) {
                    const FileDescriptor closed(connection);
                    if (++handed_on > 1) return;
                    first.Notify();
                    go_on.Wait();
                  })
                  .ok());
  std::vector<FileDescriptor> callers;
  callers.push_back(Connect("127.0.0.1", (*listener)->port()));
  first.Wait();
  for (int i = 0; i < 3; ++i) callers.push_back(Connect("127.0.0.1", (*listener)->port()));
  {
    const WatchedThread stop([&] { (*listener)->Stop(); });
    EXPECT_TRUE(stop.WaitsBeforeItEnds());  // it has asked for the end
    go_on.Notify();
  }
  EXPECT_EQ(handed_on, 4);
}

}  // namespace
}  // namespace fovea
