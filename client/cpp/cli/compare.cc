#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/comparison.h"
#include "client/cpp/cli/comparison_text.h"
#include "client/cpp/cli/files.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

constexpr uint64_t kOrderSeed = 1;

// The number of classes, which the metadata says as the last dimension of the output.
int ClassesOf(const ModelInfo& model) {
  const bool known = !model.outputs.empty() && !model.outputs[0].shape.empty();
  return known ? static_cast<int>(std::max<int64_t>(model.outputs[0].shape.back(), 1)) : 1;
}

absl::StatusOr<ClassifyResponse> Ask(Client& client, const ModelId& model, const std::string& image,
                                     int top_k, const CallOptions& call) {
  auto answer = client.Classify({.model = model, .images = {image}, .top_k = top_k}, call);
  if (!answer.ok()) return WhyNotReady(client, model, answer.status(), call);
  if (answer->images[0].empty()) {
    return absl::InternalError("the server answered without a class");
  }
  return answer;
}

// What every model says of every image, with all classes. Not timed: it also warms the models up.
absl::Status AskOpinions(Client& client, const std::vector<std::string>& images,
                         const CallOptions& call, std::vector<Measured>& measured) {
  for (Measured& model : measured) {
    const auto info = client.Model(model.model, call);
    if (!info.ok()) return WhyNotReady(client, model.model, info.status(), call);
    for (const std::string& image : images) {
      auto answer = Ask(client, model.model, image, ClassesOf(*info), call);
      if (!answer.ok()) return answer.status();
      model.attention = answer->attention;
      model.untrained = answer->untrained;
      model.opinions.push_back(std::move(answer->images[0]));
    }
  }
  return absl::OkStatus();
}

// Asks every model once in each round, and the baseline a second time as the control.
class Rounds {
 public:
  Rounds(Client& client, const std::vector<std::string>& images, const CallOptions& call,
         std::vector<Measured>& measured, std::vector<Trial>& control)
      : client_(client), images_(images), call_(call), measured_(measured), control_(control) {}

  absl::Status Run(bool keep) {
    const std::string& image = images_[round_++ % images_.size()];
    for (const size_t request : RoundOrder(measured_.size() + 1, random_)) {
      const bool control = request == measured_.size();
      const auto answer = Ask(client_, measured_[control ? 0 : request].model, image, 1, call_);
      if (!answer.ok()) return answer.status();
      if (!keep) continue;
      (control ? control_ : measured_[request].trials)
          .push_back({answer->round_trip, answer->receipt.compute(),
                      answer->receipt.batch_peak_bytes, answer->receipt.batch_size});
    }
    return absl::OkStatus();
  }

 private:
  Client& client_;
  const std::vector<std::string>& images_;
  const CallOptions& call_;
  std::vector<Measured>& measured_;
  std::vector<Trial>& control_;
  std::mt19937_64 random_{kOrderSeed};
  size_t round_ = 0;
};

void SayWhyItGoesOn(const Comparison& comparison, const Console& console) {
  const auto say = [&](const char* what, const ComparedTime& time, const ComparedTime& control) {
    if (IsVerdict(time.verdict) || time.verdict == Verdict::kNotMeasured) return false;
    console.err << "fovea: no verdict on " << what << " after " << Count(comparison.rounds, "round")
                << ", measuring on: " << DoubtText(time.verdict);
    if (control.ratio) console.err << "; control " << EstimateText(*control.ratio);
    console.err << '\n' << std::flush;
    return true;
  };
  for (const ComparedModel& model : comparison.models) {
    if (&model == &comparison.models.front()) continue;
    if (say("latency", model.latency, comparison.control_latency)) return;
    if (say("compute", model.compute, comparison.control_compute)) return;
  }
}

// Measures the rounds that were asked for, then twice as many and so on, until every verdict is
// there or a bound is reached.
absl::StatusOr<Comparison> Measure(Rounds& rounds, const CompareOptions& options,
                                   const Console& console, const std::vector<Measured>& measured,
                                   const std::vector<Trial>& control) {
  for (int i = 0; i < options.warmup_rounds; ++i) {
    if (absl::Status status = rounds.Run(/*keep=*/false); !status.ok()) return status;
  }
  const auto end = std::chrono::steady_clock::now() +
                   absl::ToChronoNanoseconds(std::min(options.max_time, absl::Hours(24 * 365)));
  const auto late = [&] { return std::chrono::steady_clock::now() >= end; };
  const size_t least = options.rounds;
  const size_t most =
      options.max_rounds > 0 ? std::max(options.max_rounds, options.rounds) : 10 * least;
  for (size_t next = least;; next = std::min(2 * next, most)) {
    while (control.size() < next && (control.size() < least || !late())) {
      if (console.progress) {
        console.err << "\rround " << control.size() + 1 << " of " << next << std::flush;
      }
      if (absl::Status status = rounds.Run(/*keep=*/true); !status.ok()) return status;
    }
    if (console.progress) console.err << "\r\033[K" << std::flush;
    Comparison comparison = Compare(measured, control);
    if (comparison.settled() || next == most || late()) return comparison;
    SayWhyItGoesOn(comparison, console);
  }
}

}  // namespace

ExitCode RunCompare(Client& client, const CompareOptions& options, const Console& console) {
  std::vector<Measured> measured;
  for (const std::string& text : options.models) {
    auto model = ParseModel(text);
    if (!model.ok()) return ReportUsage(console, std::string(model.status().message()));
    measured.push_back({.model = *std::move(model)});
  }
  std::vector<std::string> paths, images;
  for (const NamedFile& file : ExpandFiles(options.images)) {
    if (!file.status.ok()) return Report(console, file.status, file.path);
    auto image = ReadFile(file.path);
    if (!image.ok()) return Report(console, image.status(), file.path);
    paths.push_back(file.path);
    images.push_back(*std::move(image));
  }
  if (absl::Status status = AskOpinions(client, images, options.call, measured); !status.ok()) {
    return Report(console, status);
  }
  std::vector<Trial> control;
  Rounds rounds(client, images, options.call, measured, control);
  const auto comparison = Measure(rounds, options, console, measured, control);
  if (!comparison.ok()) return Report(console, comparison.status());
  if (options.json) {
    console.out << ComparisonJson(*comparison, paths) << '\n';
  } else {
    PrintComparison(*comparison, paths, console.out, console.colour);
  }
  return kOk;
}

}  // namespace fovea::client
