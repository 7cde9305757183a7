#include "tests/server/transport/grpc/raw_http2.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>

namespace fovea {
namespace {

constexpr int kData = 0, kHeaders = 1, kSettings = 4;
constexpr int kEndStream = 1, kEndHeaders = 4;

std::string BigEndian(uint32_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text.push_back(static_cast<char>(value >> shift));
  }
  return text;
}

// A literal field without indexing (RFC 7541, section 6.2.2); lengths below 127.
std::string Field(const std::string& name, const std::string& value) {
  std::string text(1, '\0');
  text.push_back(static_cast<char>(name.size()));
  text += name;
  text.push_back(static_cast<char>(value.size()));
  return text + value;
}

}  // namespace

RawConnection::RawConnection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const timeval timeout{.tv_sec = 20, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
}

RawConnection::~RawConnection() { close(socket_); }

void RawConnection::Send(const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t step = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (step <= 0) return;  // the server has hung up: what it said before can still be read
    sent += step;
  }
}

std::string RawConnection::ReceiveUntil(const std::string& stop, size_t beyond) {
  std::string received;
  char buffer[4096];
  for (;;) {
    const size_t at = stop.empty() ? std::string::npos : received.find(stop);
    if (at != std::string::npos && received.size() >= at + stop.size() + beyond) break;
    const ssize_t step = recv(socket_, buffer, sizeof(buffer), 0);
    closed_ = step == 0;
    if (step <= 0) break;
    received.append(buffer, step);
  }
  return received;
}

std::string Http2Frame(int type, int flags, int stream, const std::string& payload) {
  return BigEndian(payload.size(), 3) + BigEndian(type, 1) + BigEndian(flags, 1) +
         BigEndian(stream, 4) + payload;
}

std::string Http2Preface() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Http2Frame(kSettings, 0, 0, "");
}

std::string CallHeaders(const std::string& method, int stream, const Headers& extra) {
  std::string block = Field(":method", "POST") + Field(":scheme", "http") + Field(":path", method) +
                      Field(":authority", "localhost") + Field("content-type", "application/grpc") +
                      Field("te", "trailers");
  for (const auto& [name, value] : extra) block += Field(name, value);
  return Http2Frame(kHeaders, kEndHeaders, stream, block);
}

std::string CallMessage(const std::string& message, bool compressed, int stream,
                        size_t frame_bytes) {
  const std::string body = BigEndian(compressed, 1) + BigEndian(message.size(), 4) + message;
  std::string frames;
  for (size_t at = 0; at < body.size(); at += std::min(frame_bytes, body.size() - at)) {
    const std::string piece = body.substr(at, frame_bytes);
    frames += Http2Frame(kData, at + piece.size() == body.size() ? kEndStream : 0, stream, piece);
  }
  return frames;
}

int RawCall(int port, const std::string& method, const Headers& headers, const std::string& message,
            bool compressed, size_t frame_bytes) {
  RawConnection connection(port);
  connection.Send(Http2Preface() + CallHeaders(method, 1, headers) +
                  CallMessage(message, compressed, 1, frame_bytes));
  // gRPC writes its header fields plain: after the name comes the value's length in one byte, and
  // here one digit or two.
  const std::string name = "grpc-status";
  const std::string answer = connection.ReceiveUntil(name, 2);
  const size_t at = answer.find(name);
  if (at == std::string::npos || answer.size() < at + name.size() + 2) return -1;
  const std::string value = answer.substr(at + name.size());
  return std::stoi(value.substr(1, static_cast<size_t>(value[0])));
}

}  // namespace fovea
