// One gRPC call written by hand on a socket: for bytes that no client library sends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea {

class RawConnection {
 public:
  explicit RawConnection(int port);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  void Send(const std::string& bytes);
  // Everything that comes until the server closes, `stop` has come and so many bytes beyond it, or
  // nothing has come for some seconds.
  std::string ReceiveUntil(const std::string& stop, size_t beyond = 0);
  // The server has closed the connection.
  bool closed() const { return closed_; }

 private:
  int socket_;
  bool closed_ = false;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

// The connection's preface and our settings.
std::string Http2Preface();
// A frame of HTTP/2 (RFC 9113, section 4.1).
std::string Http2Frame(int type, int flags, int stream, const std::string& payload);
// The HEADERS frame of a call.
std::string CallHeaders(const std::string& method, int stream, const Headers& extra = {});
// The DATA frames that hold a message and end the stream, each of up to `frame_bytes`. `compressed`
// is gRPC's flag.
std::string CallMessage(const std::string& message, bool compressed, int stream,
                        size_t frame_bytes = SIZE_MAX);

// Makes a call and returns the number of its status; -1 where none came.
int RawCall(int port, const std::string& method, const Headers& headers, const std::string& message,
            bool compressed, size_t frame_bytes = SIZE_MAX);

}  // namespace fovea
