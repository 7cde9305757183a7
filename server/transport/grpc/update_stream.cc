#include "server/transport/grpc/update_stream.h"

#include <utility>

#include "server/transport/grpc/grpc_status.h"

namespace fovea {

std::shared_ptr<UpdateStream> UpdateStream::Make(Caller caller,
                                                 std::shared_ptr<RequestMemory> memory,
                                                 grpc::CallbackServerContext* call) {
  std::shared_ptr<UpdateStream> stream(
      new UpdateStream(std::move(caller), std::move(memory), call));
  stream->self_ = stream;
  return stream;
}

void UpdateStream::Tell(grpc::ByteBuffer update) {
  MutexLock lock(mutex_);
  next_ = std::move(update);
  Write();
}

void UpdateStream::End(absl::StatusOr<grpc::ByteBuffer> last) {
  bool end;
  {
    MutexLock lock(mutex_);
    next_.reset();
    if (last.ok()) next_ = *std::move(last);
    outcome_ = last.status();
    Write();
    end = Ends();
  }
  if (end) FinishCall();
}

void UpdateStream::Write() {
  if (writing_ || broken_ || !next_) return;
  written_ = *std::exchange(next_, std::nullopt);
  writing_ = true;
  StartWrite(&written_);
}

bool UpdateStream::Ends() {
  if (!outcome_ || writing_ || (next_ && !broken_)) return false;
  return !std::exchange(finished_, true);
}

void UpdateStream::FinishCall() {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    status = *outcome_;
  }
  Finish(EndCall(status, *call_));
}

void UpdateStream::OnWriteDone(bool ok) {
  bool end;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    broken_ |= !ok;
    Write();
    end = Ends();
  }
  if (!ok) cancellation_->Cancel();
  if (end) FinishCall();
}

void UpdateStream::OnDone() {
  const std::shared_ptr<UpdateStream> self = std::move(self_);
  caller_.Leave();
  memory_->Release();
}

}  // namespace fovea
