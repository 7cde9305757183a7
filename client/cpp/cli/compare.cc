#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/comparison.h"
#include "client/cpp/cli/files.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

using Align = Table::Align;

// The number of classes, which the metadata says as the last dimension of the output.
int ClassesOf(const ModelInfo& model) {
  const bool known = !model.outputs.empty() && !model.outputs[0].shape.empty();
  return known ? static_cast<int>(std::max<int64_t>(model.outputs[0].shape.back(), 1)) : 1;
}

absl::StatusOr<ClassifyResponse> Ask(Client& client, const ModelId& model, const std::string& image,
                                     int top_k, const CallOptions& call) {
  auto answer = client.Classify({.model = model, .images = {image}, .top_k = top_k}, call);
  if (answer.ok() && answer->images[0].empty()) {
    return absl::InternalError("the server answered without a class");
  }
  return answer;
}

// What every model says of every image, with all classes. Not timed: it also warms the models up.
absl::Status AskOpinions(Client& client, const std::vector<std::string>& images,
                         const CallOptions& call, std::vector<Measured>& measured) {
  for (Measured& model : measured) {
    const auto info = client.Model(model.model, call);
    if (!info.ok()) return info.status();
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

absl::Status RunRounds(Client& client, const std::vector<std::string>& images,
                       const CompareOptions& options, const Console& console,
                       std::vector<Measured>& measured) {
  const size_t all_rounds = options.warmup_rounds + options.rounds;
  for (size_t round = 0; round < all_rounds; ++round) {
    if (console.progress)
      console.err << "\rround " << round + 1 << " of " << all_rounds << std::flush;
    const std::string& image = images[round % images.size()];
    for (size_t index : RoundOrder(measured.size(), round)) {
      const auto answer = Ask(client, measured[index].model, image, 1, options.call);
      if (!answer.ok()) return answer.status();
      if (round < static_cast<size_t>(options.warmup_rounds)) continue;
      measured[index].trials.push_back({answer->round_trip, answer->receipt.compute(),
                                        answer->receipt.batch_peak_bytes,
                                        answer->receipt.batch_size});
    }
  }
  return absl::OkStatus();
}

std::string Range(const Quartiles& quartiles) {
  return absl::StrCat(Fixed(quartiles.lower, 2), "-", Fixed(quartiles.upper, 2));
}

std::string Agreement(const ComparedModel& model) {
  if (model.top1.size() == 1) return model.images_agreeing == 1 ? "yes" : "no";
  return absl::StrCat(model.images_agreeing, " of ", model.top1.size());
}

void PrintCosts(const std::vector<ComparedModel>& models, const Console& console) {
  Table table({{"MODEL"},
               {"ATTENTION"},
               {"LATENCY ms", Align::kRight},
               {"QUARTILES", Align::kRight},
               {"RATIO", Align::kRight},
               {"COMPUTE ms", Align::kRight},
               {"QUARTILES", Align::kRight},
               {"RATIO", Align::kRight},
               {"PEAK MiB", Align::kRight}});
  for (const ComparedModel& model : models) {
    table.AddRow({ModelText(model.model), model.attention, Fixed(model.latency_ms.median, 2),
                  Range(model.latency_ms), Fixed(model.latency_ratio.median, 2),
                  Fixed(model.compute_ms.median, 2), Range(model.compute_ms),
                  Fixed(model.compute_ratio.median, 2),
                  Mebibytes(static_cast<double>(model.peak_bytes))});
  }
  table.Print(console.out, console.colour);
}

void PrintAnswers(const std::vector<ComparedModel>& models, const Console& console) {
  Table table({{"MODEL"},
               {"TOP-1"},
               {"CONFIDENCE", Align::kRight},
               {"SAME TOP-1"},
               {"MAX DIFFERENCE", Align::kRight}});
  for (const ComparedModel& model : models) {
    const bool baseline = &model == &models.front();
    const auto& difference = model.max_confidence_difference;
    table.AddRow({ModelText(model.model), LabelOf(model.top1[0]), Percent(model.top1[0].confidence),
                  baseline ? "-" : Agreement(model),
                  !baseline && difference ? Fixed(100 * *difference, 2) + " %" : "-"});
  }
  table.Print(console.out, console.colour);
}

void PrintComparison(const std::vector<ComparedModel>& models, const CompareOptions& options,
                     const std::vector<std::string>& images, const Console& console) {
  const std::string baseline = Printable(ModelText(models[0].model));
  console.out << (images.size() == 1 ? Printable(images[0]) : Count(images.size(), "image")) << ", "
              << Count(options.rounds, "interleaved round")
              << ", one request at a time; medians and quartiles\n\n";
  PrintCosts(models, console);
  console.out << "\nLATENCY is the client's, COMPUTE the server's, RATIO to " << baseline
              << ", PEAK the most that a batch's tensors held.\n\n";
  PrintAnswers(models, console);
  console.out << "\nSAME TOP-1 as " << baseline
              << "; MAX DIFFERENCE from its confidence, over all classes.\n";
  int largest_batch = 0;
  for (const ComparedModel& model : models) {
    largest_batch = std::max(largest_batch, model.largest_batch);
    if (model.untrained) {
      console.out << "The weights of " << Printable(ModelText(model.model))
                  << " are random numbers: its labels mean nothing.\n";
    }
  }
  if (largest_batch > 1) {
    console.out << "The server was busy with other requests as well (batches of up to "
                << largest_batch << " images): these times are not the models' own.\n";
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
  absl::Status status = AskOpinions(client, images, options.call, measured);
  if (status.ok()) status = RunRounds(client, images, options, console, measured);
  if (console.progress) console.err << "\r\033[K" << std::flush;
  if (!status.ok()) return Report(console, status);

  const std::vector<ComparedModel> models = Compare(measured);
  if (options.json) {
    console.out << ComparisonJson(models, options.rounds, paths) << '\n';
  } else {
    PrintComparison(models, options, paths, console);
  }
  return kOk;
}

}  // namespace fovea::client
