#include "server/transport/grpc/reflection_service.h"

#include <utility>

#include "base/status.h"
#include "server/transport/grpc/control_message.h"
#include "server/transport/grpc/grpc_caller.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/reflection_answer.h"
#include "server/transport/grpc/refused_stream.h"

namespace fovea {

// Reads a question, writes its answer, reads the next: one operation of gRPC's at a time, so that
// nothing needs a lock, and a cancelled call shows in the one that is under way. Deletes itself.
class ReflectionStreams::Stream final : public Reactor {
 public:
  Stream(ReflectionStreams& streams, grpc::CallbackServerContext* call, StreamPlaces::Place place)
      : streams_(streams), call_(call), place_(std::move(place)) {
    StartRead(&question_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);  // the caller has no more questions
    // The two services' messages are the same on the wire.
    grpc::reflection::v1::ServerReflectionRequest question;
    const absl::Status readable = ReadControlMessage(question_, &question);
    question_.Clear();
    if (!readable.ok()) return Finish(EndCall(readable, *call_));
    answer_ = WriteControlMessage(AnswerReflection(question, streams_.services_));
    StartWrite(&answer_);
  }

  void OnWriteDone(bool ok) override {
    answer_.Clear();
    if (!ok) return Finish(EndCall(Cancelled("request.cancelled", "the caller has gone"), *call_));
    StartRead(&question_);
  }

  void OnDone() override { delete this; }

  ReflectionStreams& streams_;
  grpc::CallbackServerContext* const call_;
  const StreamPlaces::Place place_;
  grpc::ByteBuffer question_;
  grpc::ByteBuffer answer_;
};

ReflectionStreams::Reactor* ReflectionStreams::Start(grpc::CallbackServerContext* call) {
  Caller caller = CallerOf(context_, Method("ServerReflectionInfo"), *call);
  if (const absl::Status refused = caller.Admit(context_.api.clock().Now()); !refused.ok()) {
    return new RefusedStream<Reactor>(EndCall(refused, *call));
  }
  StreamPlaces::Place place = places_.Take(call->peer());
  if (place == nullptr) {
    return new RefusedStream<Reactor>(EndCall(
        Unavailable("reflection.busy", "too many streams on this connection or on the server"),
        *call));
  }
  return new Stream(*this, call, std::move(place));
}

}  // namespace fovea
