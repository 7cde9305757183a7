#include "server/transport/grpc/infer_stream.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/server_stopping.h"
#include "server/transport/grpc/grpc_message.h"
#include "server/transport/grpc/grpc_status.h"

namespace fovea {

// Requests are run as they come, up to limits::kMaxStreamRequestsInFlight at once, and answered in
// their order.
//
// gRPC allows one read and one write at a time, and one Finish. Advance() decides under the mutex
// what comes next and starts reads and writes there; the Finish, after which gRPC may call OnDone
// and the stream be gone, is its caller's to do when the mutex is free. Finish waits for every
// answer, so that none finds the stream gone. An OnDone in turn waits for the reactions (On...)
// that are under way.
class InferStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  InferStream(GrpcContext& context, InferStreams& streams, grpc::CallbackServerContext* call)
      : context_(context), streams_(streams), call_(call) {}

  // `drain`: answer what has been received, take no more, and end.
  void Start(bool drain) {
    {
      MutexLock lock(mutex_);
      draining_ |= drain;
      if (!Advance()) return;
    }
    End();
  }
  void Drain() { Start(/*drain=*/true); }

 private:
  // A request that has arrived and whose answer has not been written.
  struct Slot {
    Slot(GrpcContext& context, const grpc::CallbackServerContext& call)
        : exchange(context, kModelStreamInfer, call) {}
    InferExchange exchange;
    bool answered = false;
    grpc::ByteBuffer answer;
  };

  // True: the caller calls End, without the mutex, and touches the stream no more.
  [[nodiscard]] bool Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return false;
    const bool no_more = half_closed_ || broken_ || draining_;
    if (!reading_ && !no_more && slots_.size() < limits::kMaxStreamRequestsInFlight) {
      reading_ = true;
      StartRead(&incoming_);
    }
    while (!writing_ && !slots_.empty() && slots_.front()->answered) {
      if (broken_) {
        DropFirst();
      } else {
        writing_ = true;
        StartWrite(&slots_.front()->answer);
      }
    }
    finished_ = no_more && slots_.empty();
    return finished_;
  }

  // Its answer has left, or has nowhere to go. Others may still hold the slot.
  void DropFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    slots_.front()->answer.Clear();
    slots_.front()->exchange.call().Release();
    slots_.pop_front();
  }

  void End() {
    absl::Status status;
    {
      MutexLock lock(mutex_);
      if (draining_ && !half_closed_) status = ServerStopping();
    }
    Finish(EndCall(status, *call_));
  }

  void OnReadDone(bool ok) override {
    if (ok) Receive();
    {
      MutexLock lock(mutex_);
      reading_ = false;
      half_closed_ |= !ok;
      if (!Advance()) return;
    }
    End();
  }

  // The next read begins when this one's request has been handed on: requests arrive in their
  // order.
  void Receive() {
    auto slot = std::make_shared<Slot>(context_, *call_);
    {
      MutexLock lock(mutex_);
      if (broken_ || finished_) return;
      slots_.push_back(slot);
    }
    slot->exchange.Run(incoming_,
                       [this, slot](InferAnswer answer) { Answer(*slot, std::move(answer)); });
    incoming_.Clear();
  }

  void Answer(Slot& slot, InferAnswer answer) {
    EncodedMessage message =
        answer.status.ok()
            ? WriteStreamResponse(std::move(answer.message))
            : WriteStreamError({answer.status.message().data(), answer.status.message().size()},
                               CodeName(answer.status), ReasonOf(answer.status), answer.id);
    {
      MutexLock lock(mutex_);
      slot.answer = ToByteBuffer(std::move(message));
      slot.answered = true;
      slot.exchange.call().Answered();
      if (!Advance()) return;
    }
    End();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) Break();
    {
      MutexLock lock(mutex_);
      writing_ = false;
      DropFirst();
      if (!Advance()) return;
    }
    End();
  }

  void OnCancel() override {
    Break();
    {
      MutexLock lock(mutex_);
      if (!Advance()) return;
    }
    End();
  }

  void OnDone() override { streams_.Remove(this); }

  // Nobody is there to read an answer. Outside the mutex: a cancelled request may answer at once,
  // on this thread.
  void Break() {
    std::vector<std::shared_ptr<Slot>> slots;
    {
      MutexLock lock(mutex_);
      broken_ = true;
      slots.assign(slots_.begin(), slots_.end());
    }
    for (const auto& slot : slots) slot->exchange.call().Cancel();
  }

  GrpcContext& context_;
  InferStreams& streams_;
  grpc::CallbackServerContext* const call_;
  grpc::ByteBuffer incoming_;  // the read's, while reading_

  Mutex mutex_;
  std::deque<std::shared_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);  // in the order of arrival
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;      // the first slot's answer
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;  // the caller sends no more
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferStreams::Start(
    GrpcContext& context, grpc::CallbackServerContext* call) {
  auto stream = std::make_shared<InferStream>(context, *this, call);
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
