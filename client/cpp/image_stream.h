// Many requests over one call, as a camera, a video or a folder has them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/types.h"

namespace fovea::client {

class Connection;

struct StreamOptions {
  enum class Order { kInOrder, kAsTheyCome };
  Order order = Order::kInOrder;  // of the answers
  // The whole stream's deadline, which ends all its requests.
  absl::Duration timeout = absl::InfiniteDuration();
  std::string experiment_key;  // CallOptions' key, for all its requests
};

// The answer to one request.
struct StreamedAnswer {
  using Response = std::variant<ClassifyResponse, DetectResponse, SegmentResponse>;

  uint64_t number = 0;  // the request's; the first that was written has 0
  std::string id;       // the request's
  // The answer, or why the request failed, as a call of its own would have told it.
  absl::StatusOr<Response> response;
};

// The server runs the requests at the same time and takes only so many. One thread may write while
// another reads, and that is how it is meant: Write waits for the server, and the server waits for
// its answers to be read. Cancel is thread-safe besides. Made by Client::StreamImages.
class ImageStream {
 public:
  // Cancels a stream that has not been finished. No other thread is in it.
  ~ImageStream();
  ImageStream(const ImageStream&) = delete;
  ImageStream& operator=(const ImageStream&) = delete;

  // Sends a request, each to a model and with options of its own; waits while the server takes no
  // more. After `timeout` from its arrival there the answer is DEADLINE_EXCEEDED. False: the stream
  // has ended; Finish says why.
  bool Write(const ClassifyRequest& request, absl::Duration timeout = absl::InfiniteDuration());
  bool Write(const DetectRequest& request, absl::Duration timeout = absl::InfiniteDuration());
  bool Write(const SegmentRequest& request, absl::Duration timeout = absl::InfiniteDuration());
  // No more will be written.
  void WritesDone();

  // Waits for the next answer. Nothing: the stream has ended; Finish says how.
  std::optional<StreamedAnswer> Read();

  // Waits for the stream's end. Nothing is written any more, and answers that nobody has read are
  // dropped. OK: every request was answered. The errors are Client's; UNAVAILABLE: the server
  // stops, and has answered what it had taken. A later call says the same.
  absl::Status Finish();

  // The requests under way are dropped, and the stream ends with CANCELLED.
  void Cancel();

 private:
  friend class Client;
  struct Wire;
  static absl::StatusOr<std::unique_ptr<ImageStream>> Open(Connection& connection,
                                                           const StreamOptions& options);
  explicit ImageStream(std::unique_ptr<Wire> wire);

  const std::unique_ptr<Wire> wire_;
};

}  // namespace fovea::client
