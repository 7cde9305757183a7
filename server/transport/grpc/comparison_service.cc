#include "server/transport/grpc/comparison_service.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/cancellation.h"
#include "server/core/comparison.h"
#include "server/core/mutex.h"
#include "server/core/request_memory.h"
#include "server/transport/grpc/control_message.h"
#include "server/transport/grpc/grpc_caller.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/refused_stream.h"
#include "server/transport/grpc/unary_answer.h"
#include "server/transport/messages/comparison_messages.h"
#include "server/transport/messages/explanation_messages.h"

namespace fovea {
namespace {

// One Compare, until gRPC is done with it and the comparison is over. Writes one message at a time;
// progress between two of them is not told.
class CompareCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                          public std::enable_shared_from_this<CompareCall> {
 public:
  CompareCall(Caller caller, std::shared_ptr<RequestMemory> memory,
              grpc::CallbackServerContext* call)
      : caller_(std::move(caller)), memory_(std::move(memory)), call_(call) {}

  void Start(ServerApi& api, CompareRequest request) {
    self_ = shared_from_this();
    api.Compare(
        std::move(request), cancellation_,
        [self = self_](const ComparisonProgress& progress) { self->OnProgress(progress); },
        [self = self_](absl::StatusOr<Comparison> comparison) {
          self->OnOutcome(std::move(comparison));
        });
  }

 private:
  void OnProgress(const ComparisonProgress& progress) {
    v1::CompareResponse response;
    FillProgress(progress, response.mutable_progress());
    MutexLock lock(mutex_);
    next_ = WriteControlMessage(response);
    Write();
  }

  void OnOutcome(absl::StatusOr<Comparison> comparison) {
    grpc::ByteBuffer last;
    if (comparison.ok()) {
      v1::CompareResponse response;
      FillComparison(*comparison, response.mutable_comparison());
      last = WriteControlMessage(response);
    }
    bool end;
    {
      MutexLock lock(mutex_);
      next_.reset();
      if (comparison.ok()) next_ = std::move(last);
      outcome_ = comparison.status();
      Write();
      end = Ends();
    }
    if (end) End();
  }

  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || broken_ || !next_) return;
    written_ = *std::exchange(next_, std::nullopt);
    writing_ = true;
    StartWrite(&written_);
  }
  // True once: the caller calls End, without the mutex.
  bool Ends() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!outcome_ || writing_ || (next_ && !broken_)) return false;
    return !std::exchange(finished_, true);
  }
  void End() {
    absl::Status status;
    {
      MutexLock lock(mutex_);
      status = *outcome_;
    }
    Finish(EndCall(status, *call_));
  }

  void OnWriteDone(bool ok) override {
    bool end;
    {
      MutexLock lock(mutex_);
      writing_ = false;
      broken_ |= !ok;
      Write();
      end = Ends();
    }
    if (!ok) cancellation_->Cancel();
    if (end) End();
  }
  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override {
    const std::shared_ptr<CompareCall> self = std::move(self_);
    caller_.Leave();
    memory_->Release();
  }

  Caller caller_;
  const std::shared_ptr<RequestMemory> memory_;
  grpc::CallbackServerContext* const call_;
  const CancellationPtr cancellation_ = std::make_shared<Cancellation>();
  std::shared_ptr<CompareCall> self_;  // until OnDone
  Mutex mutex_;
  grpc::ByteBuffer written_;  // the write's, while writing_
  std::optional<grpc::ByteBuffer> next_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more can be written
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

// The request's images count until the experiment is over.
template <typename Message>
absl::Status Receive(const GrpcContext& context, const grpc::ByteBuffer& buffer,
                     RequestMemory& memory, Message* message) {
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes bytes,
                         ReceiveMessage(buffer, context.max_message_bytes, &memory));
  FOVEA_RETURN_IF_ERROR(memory.Take(static_cast<int64_t>(buffer.Length())));
  return ParsePieces(bytes.pieces, message) ? absl::OkStatus() : MalformedMessage();
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* ComparisonService::Compare(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* message) {
  using Refused = RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>;
  Caller caller = CallerOf(context_, Method("Compare"), *call);
  auto memory = std::make_shared<RequestMemory>(context_.api.memory());
  absl::Status status = caller.Admit(context_.api.clock().Now());
  CompareRequest request;
  if (status.ok()) {
    status = OrOutOfMemory([&]() -> absl::Status {
      v1::CompareRequest wire;
      FOVEA_RETURN_IF_ERROR(Receive(context_, *message, *memory, &wire));
      FOVEA_ASSIGN_OR_RETURN(request, ReadCompareRequest(wire));
      return absl::OkStatus();
    });
  }
  ReleaseMessage(message);
  if (!status.ok()) return new Refused(EndCall(status, *call));
  auto compare = std::make_shared<CompareCall>(std::move(caller), std::move(memory), call);
  compare->Start(context_.api, std::move(request));
  return compare.get();
}

grpc::ServerUnaryReactor* ComparisonService::Explain(grpc::CallbackServerContext* call,
                                                     const grpc::ByteBuffer* message,
                                                     grpc::ByteBuffer* answer) {
  auto* reactor = new UnaryCall(context_, Method("Explain"), call, answer);
  ExplainRequest request;
  const absl::Status readable = OrOutOfMemory([&]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(reactor->Admit());
    v1::ExplainRequest wire;
    FOVEA_RETURN_IF_ERROR(Receive(context_, *message, *reactor->memory(), &wire));
    FOVEA_ASSIGN_OR_RETURN(request, ReadExplainRequest(wire));
    return absl::OkStatus();
  });
  ReleaseMessage(message);
  if (!readable.ok()) {
    reactor->Fail(readable);
    return reactor;
  }
  context_.api.Explain(std::move(request), reactor->cancellation(),
                       [reactor](absl::StatusOr<Explanation> explanation) {
                         if (!explanation.ok()) return reactor->Fail(explanation.status());
                         reactor->AnswerWith([&] { return ToMessage(*std::move(explanation)); });
                       });
  return reactor;
}

}  // namespace fovea
