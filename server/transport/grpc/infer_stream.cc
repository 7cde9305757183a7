#include "server/transport/grpc/infer_stream.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "server/api/stream_trace.h"
#include "server/core/server_stopping.h"
#include "server/transport/grpc/grpc_caller.h"
#include "server/transport/grpc/grpc_message.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/grpc_trace.h"
#include "server/transport/grpc/refused_stream.h"

namespace fovea {
namespace {

std::string_view TextOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

absl::Status ReadInOrder(const ReceivedBytes& message, CheckModel check_model,
                         InferenceRequest* request, std::optional<AnswerOrder>*) {
  return ReadModelInferRequest(message, check_model, request);
}

// True if the caller's metadata has the field with the value "true".
bool HasTrue(const grpc::CallbackServerContext& call, const char* field) {
  const auto found = call.client_metadata().find(field);
  return found != call.client_metadata().end() && found->second == "true";
}

EncodedMessage WrapTensors(InferAnswer answer, uint64_t) {
  if (answer.status.ok()) return WriteStreamResponse(std::move(answer.message));
  return WriteStreamError(TextOf(answer.status), CodeName(answer.status), ReasonOf(answer.status),
                          answer.id);
}

EncodedMessage WrapResults(InferAnswer answer, uint64_t number) {
  if (answer.status.ok()) return WriteStreamedAnswer(std::move(answer.message), number, answer.id);
  return WriteStreamedError(ToGrpcStatus(answer.status).error_code(), ReasonOf(answer.status),
                            TextOf(answer.status), number, answer.id);
}

}  // namespace

const StreamMethod kModelStreamInfer{Method("ModelStreamInfer"), ReadInOrder,
                                     WriteModelInferResponse, WrapTensors, "triton_grpc_error"};
const StreamMethod kStreamImages{Method("StreamImages"), ReadStreamImagesRequest,
                                 WriteStreamedResults, WrapResults, nullptr};

// Requests are run as they come. A request has a slot until its answer has left, also where the
// answer is there before its turn. Nothing is read while GrpcContext::max_stream_requests slots
// are taken, or fewer that hold much (limits::kStreamMemoryShare): messages, what requests under
// way have taken of the memory for them, answers. gRPC then lets the caller send
// limits::kStreamWindowBytes ahead, and no more.
//
// gRPC allows one read and one write at a time, and one Finish. Advance() decides under the mutex
// what comes next and starts reads and writes there; what has to be done when the mutex is free is
// Go's: to cancel requests, which may answer at once on this thread, and the Finish, after which
// gRPC may call OnDone and the stream be gone. Finish waits for every answer, so that none finds
// the stream gone. An OnDone in turn waits for the reactions (On...) that are under way.
class InferStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  InferStream(GrpcContext& context, const StreamMethod& method, InferStreams& streams,
              grpc::CallbackServerContext* call)
      : context_(context),
        method_(method),
        streams_(streams),
        call_(call),
        max_bytes_(context.api.memory().capacity() / limits::kStreamMemoryShare),
        ends_on_error_(method.ends_on_error != nullptr && HasTrue(*call, method.ends_on_error)),
        trace_(context.api, Protocol::kGrpc, method.api.name, TraceContextOf(*call)) {}

  // `drain`: answer what has been received, take no more, and end.
  void Start(bool drain) {
    Next next;
    {
      MutexLock lock(mutex_);
      draining_ |= drain;
      next = Advance();
    }
    Go(next, this);
  }
  void Drain() { Start(/*drain=*/true); }

 private:
  // A request that has arrived and whose answer has not been written.
  struct Slot {
    Slot(GrpcContext& context, const StreamMethod& method, const grpc::CallbackServerContext& call,
         TraceParent trace)
        : exchange(context, method.api, call, std::move(trace)) {}
    InferExchange exchange;
    uint64_t number = 0;        // in the stream
    int64_t message_bytes = 0;  // until it is answered
    bool answered = false;
    absl::Status error;  // OK: an answer, or none yet
    grpc::ByteBuffer answer;
  };
  using Slots = std::deque<std::shared_ptr<Slot>>;

  // Work for when the mutex is free.
  struct Next {
    std::vector<std::shared_ptr<Slot>> to_cancel;
    bool end = false;
  };

  [[nodiscard]] Next Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Next next;
    if (finished_) return next;
    while (leaving_ == nullptr) {
      const auto first = NextAnswer();
      if (first == slots_.end()) break;
      if (ends_on_error_ && failure_.ok()) failure_ = (*first)->error;
      if (GivenUp()) {
        Drop(first);
      } else {
        leaving_ = *first;
        StartWrite(&leaving_->answer);
      }
    }
    const bool no_more = half_closed_ || draining_ || GivenUp();
    if (!reading_ && !no_more && !Full()) {
      reading_ = true;
      StartRead(&incoming_);
    }
    if (GivenUp() && !cancelled_rest_) {
      cancelled_rest_ = true;
      next.to_cancel.assign(slots_.begin(), slots_.end());
    }
    next.end = finished_ = no_more && slots_.empty();
    return next;
  }

  // Called without the mutex, as the last use of the stream: unless this call ends it, another
  // thread may have ended and deleted it already.
  static void Go(const Next& next, InferStream* stream) {
    for (const auto& slot : next.to_cancel) slot->exchange.call().Cancel();
    if (next.end) stream->End();
  }

  // No answer has anywhere to go any more.
  bool GivenUp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return broken_ || !failure_.ok(); }

  bool Full() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return slots_.size() >= context_.max_stream_requests || HeldBytes() >= max_bytes_;
  }

  // It grows while a request is read and handed on, before the next read, and shrinks before an
  // Advance.
  int64_t HeldBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int64_t bytes = 0;
    for (const auto& slot : slots_) {
      bytes += slot->message_bytes + slot->exchange.call().held_bytes();
    }
    return bytes;
  }

  // Whose answer leaves next; slots_.end(): none may yet. As they come, it is the oldest request's
  // of those that are there.
  Slots::iterator NextAnswer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto answered = [](const auto& slot) { return slot->answered; };
    const auto first = std::find_if(slots_.begin(), slots_.end(), answered);
    const bool has_turn = order_ == AnswerOrder::kAsTheyCome || first == slots_.begin();
    return has_turn ? first : slots_.end();
  }

  // Its answer has left, or has nowhere to go. Others may still hold the slot.
  void Drop(Slots::iterator at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Slot& slot = **at;
    slot.answer.Clear();
    slot.exchange.call().Release();
    slots_.erase(at);
  }

  void End() {
    absl::Status status;
    bool broken;
    uint64_t requests;
    {
      MutexLock lock(mutex_);
      if (draining_ && !half_closed_) status = ServerStopping();
      if (!failure_.ok()) status = failure_;
      broken = broken_;
      requests = received_;
    }
    trace_.End(broken ? Cancelled("request.cancelled", "the caller ended the stream") : status,
               requests);
    TellTrace(trace_.traceparent(), *call_);
    Finish(EndCall(status, *call_));
  }

  void OnReadDone(bool ok) override {
    if (ok) Receive();
    Next next;
    {
      MutexLock lock(mutex_);
      reading_ = false;
      half_closed_ |= !ok;
      next = Advance();
    }
    Go(next, this);
  }

  // The next read begins when this one's request has been handed on: requests arrive in their
  // order.
  void Receive() {
    auto slot = std::make_shared<Slot>(context_, method_, *call_, trace_.parent());
    {
      MutexLock lock(mutex_);
      if (GivenUp() || finished_) return;
      slot->number = received_++;
      slot->message_bytes = static_cast<int64_t>(incoming_.Length());
      slots_.push_back(slot);
    }
    slot->exchange.Run(
        incoming_,
        [&](const ReceivedBytes& message, CheckModel check_model, InferenceRequest* request) {
          std::optional<AnswerOrder> order;
          const absl::Status status = method_.read(message, check_model, request, &order);
          MutexLock lock(mutex_);
          if (!order_) order_ = order;
          return status;
        },
        method_.write, [this, slot](InferAnswer answer) { Answer(*slot, std::move(answer)); });
    incoming_.Clear();
  }

  void Answer(Slot& slot, InferAnswer answer) {
    absl::Status error = answer.status;
    EncodedMessage message = method_.wrap(std::move(answer), slot.number);
    Next next;
    {
      MutexLock lock(mutex_);
      slot.message_bytes = 0;
      slot.error = std::move(error);
      slot.answer = ToByteBuffer(std::move(message));
      slot.answered = true;
      slot.exchange.call().Answered();
      next = Advance();
    }
    Go(next, this);
  }

  void OnWriteDone(bool ok) override {
    Next next;
    {
      MutexLock lock(mutex_);
      broken_ |= !ok;
      Drop(std::find(slots_.begin(), slots_.end(), leaving_));
      leaving_ = nullptr;
      next = Advance();
    }
    Go(next, this);
  }

  void OnCancel() override {
    Next next;
    {
      MutexLock lock(mutex_);
      broken_ = true;
      next = Advance();
    }
    Go(next, this);
  }

  void OnDone() override { streams_.Remove(this); }

  GrpcContext& context_;
  const StreamMethod& method_;
  InferStreams& streams_;
  grpc::CallbackServerContext* const call_;
  const int64_t max_bytes_;   // that all slots hold, before no more is read
  const bool ends_on_error_;  // the first error is the stream's status
  StreamTrace trace_;
  grpc::ByteBuffer incoming_;  // the read's, while reading_

  Mutex mutex_;
  Slots slots_ ABSL_GUARDED_BY(mutex_);                       // in the order of arrival
  std::shared_ptr<Slot> leaving_ ABSL_GUARDED_BY(mutex_);     // whose answer is being written
  uint64_t received_ ABSL_GUARDED_BY(mutex_) = 0;             // requests
  std::optional<AnswerOrder> order_ ABSL_GUARDED_BY(mutex_);  // once a message has told it
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;  // the caller sends no more
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;   // no caller is left to read answers
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // the error that ends the stream; OK: none
  bool cancelled_rest_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferStreams::Start(
    GrpcContext& context, const StreamMethod& method, grpc::CallbackServerContext* call) {
  // Each of its requests is asked for its caller again: keys change while streams last.
  if (const absl::Status refused = CallerOf(context, method.api, *call).refused; !refused.ok()) {
    return new RefusedStream<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>(
        EndCall(refused, *call));
  }
  auto stream = std::make_shared<InferStream>(context, method, *this, call);
  bool draining;
  {
    MutexLock lock(mutex_);
    streams_.emplace(stream.get(), stream);
    draining = draining_;
  }
  stream->Start(draining);
  return stream.get();
}

void InferStreams::Drain() {
  std::vector<std::shared_ptr<InferStream>> streams;
  {
    MutexLock lock(mutex_);
    draining_ = true;
    for (const auto& [key, stream] : streams_) streams.push_back(stream);
  }
  for (const auto& stream : streams) stream->Drain();
}

void InferStreams::Remove(InferStream* stream) {
  std::shared_ptr<InferStream> last;  // dropped outside the mutex
  MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  last = std::move(found->second);
  streams_.erase(found);
  if (streams_.empty()) empty_.NotifyAll();
}

void InferStreams::AwaitEmpty(Clock& clock, Nanos until) {
  MutexLock lock(mutex_);
  while (!streams_.empty() && clock.Now() < until) clock.WaitUntil(empty_, mutex_, until);
}

}  // namespace fovea
