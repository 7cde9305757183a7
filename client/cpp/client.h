// The C++ client of a Fovea server. Link `fovea_client`; no protobuf or gRPC header is needed to
// use it.
//
//   auto client = fovea::client::Client::Connect("127.0.0.1:8001");
//   if (!client.ok()) return client.status();
//   auto answer = (*client)->Classify({.model = {"shapes"}, .images = {jpeg_bytes}, .top_k = 3});
//   if (!answer.ok()) return answer.status();  // whose message() is a sentence for people
//   for (const auto& score : answer->images[0]) {
//     std::cout << score.label << ' ' << score.confidence << '\n';
//   }
//
// Everything but Classify, Detect, Segment, StreamImages, Compare, Sweep, Explain and experiments
// works with any server of the Open Inference Protocol that has Triton's extensions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/comparison.h"
#include "client/cpp/experiment.h"
#include "client/cpp/explanation.h"
#include "client/cpp/image_stream.h"
#include "client/cpp/measuring_progress.h"
#include "client/cpp/sweep.h"
#include "client/cpp/types.h"

namespace fovea::client {

struct ConnectOptions {
  // How long to wait for a connection. One that is refused fails at once.
  absl::Duration timeout = absl::Seconds(5);
  // The largest message that is taken from the server.
  int64_t max_message_bytes = int64_t{256} << 20;
  // With the issuers of the server's certificate (PEM) the connection is encrypted. A certificate
  // of one's own and its key (PEM) are for servers that ask for it.
  std::string tls_ca, tls_certificate, tls_key;
  // For servers that want one. Without TLS everyone on the way reads it.
  std::string api_key;
  // How often a call is made at most, in [1, 5], when a server refuses it as UNAVAILABLE or its
  // connection breaks. Only inference and questions about models are made again, which harm nobody
  // when they are asked twice: within the call's deadline, after pauses, and on a budget
  // (client/cpp/retry.h). 1: once, for those who try again themselves or measure single calls.
  int max_attempts = 4;
  // Calls go in turn to all addresses that the host has, for example the replicas behind a headless
  // service of Kubernetes; otherwise to the first that answers.
  bool balance = false;
};

struct CallOptions {
  // The call's deadline, which the server knows: work that it cannot finish by then it does not
  // start. Above zero; absl::InfiniteDuration() for none.
  absl::Duration timeout = absl::Seconds(30);
  // Inference only. While an experiment shares a model's traffic out, calls with the same key are
  // answered by the same arm. Printable ASCII. Empty: the name of the API key or certificate takes
  // its place; without these, each call is assigned by itself.
  std::string experiment_key;
};

// Whether an error says that there is no connection to the server, rather than what the server
// answered.
bool IsUnreachable(const absl::Status& status);

// The stable token that a Fovea server gives an error besides its sentence, for example
// "image.truncated"; empty where there is none. For programs: sentences may change.
std::string ReasonOf(const absl::Status& status);

// Thread-safe. Every call blocks until the answer or the error is there; calls from several threads
// share one connection and run at the same time, which lets the server run them in one batch.
//
// Errors have the server's own code and sentence, above all INVALID_ARGUMENT (a request that cannot
// succeed, or an `experiment_key` that cannot be sent), NOT_FOUND (no such model or version),
// UNAVAILABLE (busy or stopping, and so at each of ConnectOptions::max_attempts), DEADLINE_EXCEEDED
// (no answer in time). Where the server cannot be reached it is UNAVAILABLE with IsUnreachable and
// a sentence that says why, and UNIMPLEMENTED where it lacks the call.
class Client {
 public:
  // `address`: HOST:PORT, [IPV6]:PORT, or a target as gRPC writes them ("unix:/run/fovea.sock").
  // Proxies named in the environment are not used. INVALID_ARGUMENT: no address; a certificate
  // without its key, or without issuers; a `max_attempts` that is not in [1, 5].
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address,
                                                         const ConnectOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  absl::StatusOr<ClassifyResponse> Classify(const ClassifyRequest& request,
                                            const CallOptions& options = {});

  // The objects in each image, their boxes in its pixels. INTERNAL: the server's answer has a
  // class, a score, a box or a picture size that cannot be.
  absl::StatusOr<DetectResponse> Detect(const DetectRequest& request,
                                        const CallOptions& options = {});

  // A class for each pixel of each image, and how sure the model is of it where that is asked for.
  // INTERNAL: the server's maps do not cover its images.
  absl::StatusOr<SegmentResponse> Segment(const SegmentRequest& request,
                                          const CallOptions& options = {});

  // Many requests over one call. CANCELLED: the client was stopped; INVALID_ARGUMENT: the
  // experiment key cannot be sent. The client outlives its streams.
  absl::StatusOr<std::unique_ptr<ImageStream>> StreamImages(const StreamOptions& options = {});

  // Variants side by side on the server, which runs with --enable-experiments. `progress` is called
  // on this thread now and then; null: nobody wants to know. INTERNAL: the server ended without a
  // comparison.
  absl::StatusOr<Comparison> Compare(const CompareRequest& request,
                                     const std::function<void(const MeasuringProgress&)>& progress,
                                     const CallOptions& options = {.timeout = absl::Minutes(10)});

  // How costs grow, measured as Compare does. INTERNAL: the server ended without a sweep, or it is
  // one that this library does not understand.
  absl::StatusOr<fovea::client::Sweep> Sweep(
      const SweepRequest& request, const std::function<void(const MeasuringProgress&)>& progress,
      const CallOptions& options = {.timeout = absl::Hours(1)});

  // What a model's attention looks at in an image. The server runs with --enable-experiments.
  // INTERNAL: a map of the server's answer has another number of values than places.
  absl::StatusOr<Explanation> Explain(const ExplainRequest& request,
                                      const CallOptions& options = {.timeout = absl::Minutes(2)});

  // Shares a model's traffic out between variants, in a server that runs with --enable-experiments.
  // Returns when they are loaded and the experiment runs. ALREADY_EXISTS: one of that name is
  // there, or another one has the model's traffic; the other errors are StartExperiment's in
  // proto/fovea/v1/experiment.proto. This call and the next three answer INTERNAL where what the
  // server tells is no experiment.
  absl::StatusOr<Experiment> StartExperiment(const ExperimentPlan& plan,
                                             const CallOptions& options = {
                                                 .timeout = absl::Minutes(10)});
  // How it stands: it may be looked at, and acted upon, at any time. NOT_FOUND: none has that name.
  absl::StatusOr<Experiment> GetExperiment(const std::string& name,
                                           const CallOptions& options = {});
  // All, those that have ended too, by name.
  absl::StatusOr<std::vector<Experiment>> ListExperiments(const CallOptions& options = {});
  // Ends it; one that has ended stays as it is. NOT_FOUND: none has that name.
  absl::StatusOr<Experiment> StopExperiment(const std::string& name,
                                            const CallOptions& options = {});
  // Forgets one that has ended. NOT_FOUND: none has that name; FAILED_PRECONDITION: it runs.
  absl::Status DeleteExperiment(const std::string& name, const CallOptions& options = {});

  // The generic call: any inputs, any outputs.
  absl::StatusOr<InferResponse> Infer(const InferRequest& request, const CallOptions& options = {});

  // Name, version, state and reason of every model of the repository, loaded or not, and of every
  // version that is served; by name, then version.
  absl::StatusOr<std::vector<ModelInfo>> Index(const CallOptions& options = {});

  // The same with everything else that a ready model says of itself.
  absl::StatusOr<std::vector<ModelInfo>> Models(const CallOptions& options = {});

  // A ready model.
  absl::StatusOr<ModelInfo> Model(const ModelId& model, const CallOptions& options = {});

  // Loads or reloads a model of the repository, and returns when it serves or has failed. `config`:
  // JSON of a ModelConfig that overrides the model's own, or empty. FAILED_PRECONDITION: the server
  // does not let clients load.
  absl::Status Load(const std::string& model, const std::string& config = "",
                    const CallOptions& options = {.timeout = absl::Minutes(10)});

  // Stops serving every version of a model, and returns when its queue is drained.
  absl::Status Unload(const std::string& model,
                      const CallOptions& options = {.timeout = absl::Minutes(10)});

  // `model.name` empty: every model; `model.version` empty: every version.
  absl::StatusOr<std::vector<ModelStatistics>> Statistics(const ModelId& model = {},
                                                          const CallOptions& options = {});

  absl::StatusOr<ServerHealth> Health(const CallOptions& options = {});

  // Whether that model can run; an unknown one cannot.
  absl::StatusOr<bool> Ready(const ModelId& model, const CallOptions& options = {});

  // Ends the calls that are running and refuses new ones, with CANCELLED.
  void Stop();

 private:
  struct Wire;
  explicit Client(std::unique_ptr<Wire> wire);
  const std::unique_ptr<Wire> wire_;
};

}  // namespace fovea::client
