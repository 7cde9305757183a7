// A caller of HTTP that sends whatever bytes a test wants.
#pragma once

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace fovea {

class HttpConnection {
 public:
  explicit HttpConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // So that an answer that does not come fails a test and does not hang it.
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  // False where the other side has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Up to the first `end`, or until the other side closes.
  std::string ReadUntil(std::string_view end) {
    std::string all;
    char byte;
    while (!all.ends_with(end) && Receive(&byte, 1) == 1) all.push_back(byte);
    return all;
  }
  // Everything until the other side closes.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    for (ssize_t got; (got = Receive(buffer, sizeof(buffer))) > 0;) {
      all.append(buffer, static_cast<size_t>(got));
    }
    return all;
  }
  // Returns once the other side's kernel has what was sent, the end of it too.
  void AwaitArrived() {
    for (int left = 1; left != 0;) ASSERT_EQ(ioctl(socket_.get(), SIOCOUTQ, &left), 0);
  }
  // The same, where the other end may have hung up.
  void TrySend(std::string_view text) {
    send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  // False once the other end has hung up.
  bool IsOpen() {
    char byte;
    return recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  // Sends no more, and still reads.
  void EndSending() { shutdown(socket_.get(), SHUT_WR); }
  void Close() { socket_ = FileDescriptor(); }
  int file() const { return socket_.get(); }

 private:
  ssize_t Receive(char* to, size_t size) {
    const ssize_t got = recv(socket_.get(), to, size, 0);
    if (got < 0 && errno == EAGAIN) ADD_FAILURE() << "the connection is still open";
    return got;
  }

  FileDescriptor socket_;
};

// What a server on that port answers to `request`, until it closes the connection.
inline std::string AskHttp(int port, std::string_view request) {
  HttpConnection connection(port);
  connection.Send(request);
  return connection.ReadAll();
}

// "GET /path HTTP/1.1" and what else a request has, asking for the end of the connection.
inline std::string HttpMessage(std::string_view method_and_target, std::string_view body = "",
                               std::string_view fields = "") {
  std::string text(method_and_target);
  text.append(" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n").append(fields);
  if (!body.empty()) text.append("Content-Length: " + std::to_string(body.size()) + "\r\n");
  return text.append("\r\n").append(body);
}

}  // namespace fovea
