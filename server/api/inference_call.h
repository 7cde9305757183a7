// One inference request, from its message's arrival until its answer has left the server, whatever
// the protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/api/caller.h"
#include "server/api/request_gate.h"
#include "server/core/live_experiment.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"
#include "server/tracing/tracer.h"

namespace fovea {

class ServerApi;

// Where a request comes from, beside its caller.
struct RequestOrigin {
  TraceParent trace;       // what it belongs to
  std::string_view route;  // over HTTP: the pattern of its path, a constant
  bool tls = false;        // over HTTP: it came within TLS
  // By which an experiment sends it to one of its arms; empty: by the caller's principal.
  std::string experiment_key = {};
};

// Holds what the request holds: its place at the gate, which a drain waits for, and its memory.
// Run is called once; Cancel and held_bytes are thread-safe; the rest is the transport's, one call
// at a time. It lives until `done` has been called; `api` outlives it.
class InferenceCall {
 public:
  // Fills in the request, at once and on this thread. `check_model` is to be called once, as soon
  // as the model's name and version are there. The request's id and the model's name are left there
  // even where the rest is refused, if they could be read: the log has them.
  using Read = absl::FunctionRef<absl::Status(InferenceRequest& request, CheckModel check_model)>;
  // Encodes the answer and ends the encode stage of its receipt; the bytes that it takes. On the
  // thread that has the result.
  using Write = std::function<absl::StatusOr<int64_t>(InferenceResponse& response)>;
  // Called exactly once, after Write, on any thread, perhaps before Run returns. `id` is the
  // request's, as far as it could be read.
  using Done = std::function<void(const absl::Status& status, const std::string& id)>;

  // `method` is the RPC's name, a constant. `deadline` is the caller's, in steady time.
  InferenceCall(ServerApi& api, Caller caller, std::string_view method, Nanos arrived,
                Nanos deadline, RequestOrigin origin = {});

  // Has the request answered. UNAVAILABLE where the server drains; Caller::Admit's, `read`'s and
  // `write`'s errors; DEADLINE_EXCEEDED: a result that comes after the request's deadline is none.
  // Before `done`, the request's memory has shrunk to what the answer takes. `received_bytes`: of
  // the message.
  void Run(int64_t received_bytes, Read read, Write write, Done done);

  // For Write: what the encoded answer takes beside the results that it is made of;
  // RequestMemory::Take's errors.
  absl::Status TakeAnswerMemory(int64_t bytes) { return memory_.Take(bytes); }

  // The caller has gone away, or its deadline has passed. The answer still comes, and goes nowhere.
  void Cancel() { cancellation_->Cancel(); }
  // What the request makes the server hold beside its message: all that it may take (decoded
  // pictures, outputs, masks) from when Run returns, and only its answer from before `done` is
  // called until Release.
  int64_t held_bytes() const { return memory_.bytes(); }
  // For the caller, from when `done` is called: `traceparent` of the request's own span where it is
  // recorded, else what the caller has sent; empty: none.
  std::string traceparent() const { return TraceParentText(trace_.context); }
  // The answer is on its way out, as fast as its caller reads.
  void Answered() { pass_.Answered(); }
  // The answer has left, or has nowhere to go.
  void Release();

 private:
  // The model that it is for, or an arm of the experiment that has the model's traffic.
  absl::StatusOr<std::shared_ptr<const ServingModel>> FindModel(const InferenceRequest& head);
  // Fills it in, and finds its model.
  absl::Status ReadRequest(InferenceRequest& request, Read read);
  void Answer(absl::StatusOr<InferenceResponse> response, StageTimes stages, const Write& write,
              const Done& done);

  ServerApi& api_;
  Caller caller_;
  const Nanos arrived_;
  const std::string_view method_;
  const RequestOrigin origin_;
  RequestMemory memory_;
  std::unique_ptr<InferenceRequest> request_;  // until it is handed on
  const CancellationPtr cancellation_;
  RequestGate::Pass pass_;
  // What is known of it after it has been handed on.
  std::shared_ptr<const ServingModel> model_;  // until it is answered; null: none that serves
  std::unique_ptr<RoutedRequest> routed_;      // likewise; null: no experiment has sent it there
  std::string id_, asked_model_, asked_version_;
  Nanos deadline_;
  int64_t received_bytes_ = 0;
  RequestTrace trace_;  // once it is answered
};

}  // namespace fovea
