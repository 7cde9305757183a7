// A call that tells how it goes on, in messages, until it ends.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "server/api/caller.h"
#include "server/core/cancellation.h"
#include "server/core/mutex.h"
#include "server/core/request_memory.h"

namespace fovea {

// Lives until gRPC is done with it and nobody holds it. One message is written at a time: of the
// updates that come meanwhile the latest is next, and the last message is written always.
// Thread-safe.
class UpdateStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // `caller` and `memory` are held until gRPC is done.
  static std::shared_ptr<UpdateStream> Make(Caller caller, std::shared_ptr<RequestMemory> memory,
                                            grpc::CallbackServerContext* call);

  // Set when the call is cancelled, and when nothing more can be written.
  const CancellationPtr& cancellation() const { return cancellation_; }

  void Tell(grpc::ByteBuffer update);
  // Once; nothing is told afterwards.
  void End(absl::StatusOr<grpc::ByteBuffer> last);

 private:
  UpdateStream(Caller caller, std::shared_ptr<RequestMemory> memory,
               grpc::CallbackServerContext* call)
      : caller_(std::move(caller)), memory_(std::move(memory)), call_(call) {}

  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True once: the caller calls FinishCall, without the mutex.
  bool Ends() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishCall();

  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override;

  Caller caller_;
  const std::shared_ptr<RequestMemory> memory_;
  grpc::CallbackServerContext* const call_;
  const CancellationPtr cancellation_ = std::make_shared<Cancellation>();
  std::shared_ptr<UpdateStream> self_;  // until OnDone
  Mutex mutex_;
  grpc::ByteBuffer written_;  // the write's, while writing_
  std::optional<grpc::ByteBuffer> next_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more can be written
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace fovea
