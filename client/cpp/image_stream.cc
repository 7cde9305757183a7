#include "client/cpp/image_stream.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/connection.h"
#include "client/cpp/wire_types.h"
#include "proto/fovea/v1/vision.grpc.pb.h"

namespace fovea::client {

using fovea::v1::StreamImagesRequest;
using fovea::v1::StreamImagesResponse;

struct ImageStream::Wire {
  Wire(Connection& connection, const StreamOptions& options)
      : connection(connection), options(options), vision(connection.channel()) {
    context.set_deadline(DeadlineIn(options.timeout));
  }

  bool Write(StreamImagesRequest message, int images, absl::Duration timeout) {
    if (timeout != absl::InfiniteDuration()) {
      // 0 would be none.
      message.set_timeout_us(std::max<int64_t>(1, absl::ToInt64Microseconds(timeout)));
    }
    message.set_order(options.order == StreamOptions::Order::kAsTheyCome
                          ? StreamImagesRequest::AS_THEY_COME
                          : StreamImagesRequest::IN_ORDER);
    {
      std::lock_guard lock(mutex);
      sent.emplace(next++, Sent{std::chrono::steady_clock::now(), images});
    }
    return stream->Write(message);
  }

  // A task's response to the request of that number.
  template <typename Response, typename Message>
  absl::StatusOr<StreamedAnswer::Response> ResponseTo(uint64_t number, Message&& message) {
    const auto now = std::chrono::steady_clock::now();
    Sent request;
    {
      std::lock_guard lock(mutex);
      const auto found = sent.extract(number);
      if (found.empty()) {
        return absl::InternalError(
            absl::StrCat("the server answered request ", number, ", which waits for no answer"));
      }
      request = found.mapped();
    }
    if (message.results_size() != request.images) {
      return absl::InternalError(absl::StrCat("the server answered ", message.results_size(),
                                              " results to ", request.images, " images"));
    }
    absl::StatusOr<Response> response = FromWire(std::forward<Message>(message));
    if (!response.ok()) return response.status();
    response->round_trip = absl::FromChrono(now - request.start);
    return StreamedAnswer::Response(*std::move(response));
  }

  absl::StatusOr<StreamedAnswer::Response> ResponseOf(StreamImagesResponse&& message) {
    const uint64_t number = message.number();
    switch (message.answer_case()) {
      case StreamImagesResponse::kClassify:
        return ResponseTo<ClassifyResponse>(number, std::move(*message.mutable_classify()));
      case StreamImagesResponse::kDetect:
        return ResponseTo<DetectResponse>(number, std::move(*message.mutable_detect()));
      case StreamImagesResponse::kSegment:
        return ResponseTo<SegmentResponse>(number, std::move(*message.mutable_segment()));
      case StreamImagesResponse::kError: {
        std::lock_guard lock(mutex);
        sent.erase(number);
        const fovea::v1::RequestError& error = message.error();
        return ServerError(error.code(), error.message(), error.reason());
      }
      case StreamImagesResponse::ANSWER_NOT_SET:
        break;
    }
    return absl::InternalError("the server's answer has no result");
  }

  absl::Status Finish() {
    if (!outcome) {
      WritesDone();
      StreamImagesResponse unread;
      while (stream->Read(&unread)) {
      }
      const grpc::Status status = stream->Finish();
      connection.End(context);
      outcome = connection.Outcome("fovea.v1.VisionService.StreamImages", options.timeout, status,
                                   context);
    }
    return *outcome;
  }

  void WritesDone() {
    if (!std::exchange(writes_done, true)) stream->WritesDone();
  }

  struct Sent {
    std::chrono::steady_clock::time_point start;
    int images = 0;
  };

  Connection& connection;
  const StreamOptions options;
  fovea::v1::VisionService::Stub vision;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<StreamImagesRequest, StreamImagesResponse>> stream;
  bool writes_done = false;             // the writer's
  std::optional<absl::Status> outcome;  // once it has ended

  std::mutex mutex;
  uint64_t next = 0;              // number of the next request
  std::map<uint64_t, Sent> sent;  // those without an answer, by number
};

absl::StatusOr<std::unique_ptr<ImageStream>> ImageStream::Open(Connection& connection,
                                                               const StreamOptions& options) {
  auto wire = std::make_unique<Wire>(connection, options);
  if (absl::Status added = AddExperimentKey(options.experiment_key, wire->context); !added.ok()) {
    return added;
  }
  if (!connection.Begin(wire->context)) return Stopped();
  wire->stream = wire->vision.StreamImages(&wire->context);
  return std::unique_ptr<ImageStream>(new ImageStream(std::move(wire)));
}

ImageStream::ImageStream(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}

ImageStream::~ImageStream() {
  if (wire_->outcome) return;
  Cancel();
  wire_->Finish().IgnoreError();
}

bool ImageStream::Write(const ClassifyRequest& request, absl::Duration timeout) {
  StreamImagesRequest message;
  *message.mutable_classify() = ToWire(request);
  return wire_->Write(std::move(message), static_cast<int>(request.images.size()), timeout);
}

bool ImageStream::Write(const DetectRequest& request, absl::Duration timeout) {
  StreamImagesRequest message;
  *message.mutable_detect() = ToWire(request);
  return wire_->Write(std::move(message), static_cast<int>(request.images.size()), timeout);
}

bool ImageStream::Write(const SegmentRequest& request, absl::Duration timeout) {
  StreamImagesRequest message;
  *message.mutable_segment() = ToWire(request);
  return wire_->Write(std::move(message), static_cast<int>(request.images.size()), timeout);
}

void ImageStream::WritesDone() { wire_->WritesDone(); }

std::optional<StreamedAnswer> ImageStream::Read() {
  StreamImagesResponse message;
  if (!wire_->stream->Read(&message)) return std::nullopt;
  const uint64_t number = message.number();
  std::string id = message.id();
  return StreamedAnswer{number, std::move(id), wire_->ResponseOf(std::move(message))};
}

absl::Status ImageStream::Finish() { return wire_->Finish(); }

void ImageStream::Cancel() { wire_->context.TryCancel(); }

}  // namespace fovea::client
