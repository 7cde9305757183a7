#include "model_zoo/training/train_command.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/data/user_data/fingerprint.h"
#include "model_zoo/training/model_folder.h"
#include "model_zoo/training/optimisation/checkpoint.h"
#include "model_zoo/training/report.h"
#include "model_zoo/training/tasks/shape_evaluation.h"
#include "model_zoo/training/training_plan.h"

namespace fovea::models::training {
namespace {

// What was written, built as a server does: through the same reader, loader and preparation.
std::unique_ptr<Model> Served(const std::string& folder) {
  const ModelDescription description = DescribeModelFolder(folder);
  std::unique_ptr<Model> model = LoadModel(description);
  model->Prepare(c10::kCPU, description.precision);
  return model;
}

void PrintMeasures(const std::string& folder, TrainingTask& task) {
  const std::unique_ptr<Model> served = Served(folder);
  std::printf("%s: %s, attention %s, as it is served:", folder.c_str(),
              served->info().backbone.c_str(), served->info().attention.c_str());
  for (const Measure& measure : task.ValidateServed(*served).measures) {
    std::printf(" %s %.4f", measure.name.c_str(), measure.value);
  }
  std::printf("\n");
}

// How many, and in which files.
std::string SummaryOf(const SampleSource& source) {
  if (source.size() == SampleSource::kEndless) return "endless";
  std::ostringstream text;
  text << source.size();
  const size_t files = source.files().size();
  if (files > 0) {
    text << " of " << files << " files, fingerprint " << std::hex << FingerprintOf(source);
  }
  return text.str();
}

// What a checkpoint's numbers depend on, as lines. The command is not enough: what it does not say
// may be as of another model's folder, and the data may have changed in its place. Labels count,
// since the classes of a checkpoint have their order.
std::string WholeIdentity(const std::string& command, const ModelFolder& folder,
                          const TrainingPlan& plan) {
  std::string identity = command + SpecOf({.summary = folder.summary,
                                           .model = folder.model,
                                           .preprocessing = folder.preprocessing});
  if (!plan.draws()) {
    identity += "training samples: " + SummaryOf(*plan.data.training) +
                "\nvalidation samples: " + SummaryOf(*plan.data.validation) + "\n";
  }
  identity += "steps per epoch: " + std::to_string(plan.options.steps_per_epoch) + "\n";
  for (const std::string& label : plan.labels) identity += "label: " + label + "\n";
  return identity;
}

}  // namespace

void PrintEvaluation(const std::string& folder, uint64_t seed, int64_t images) {
  const std::unique_ptr<Model> model = Served(folder);
  const Score score = Evaluate(ClassifierOf(*model), seed, Stream::kValidation, images);
  std::printf("%s: %s, attention %s: validation accuracy %.2f%% (%lld of %lld), loss %.4f\n",
              folder.c_str(), model->info().backbone.c_str(), model->info().attention.c_str(),
              100 * score.accuracy(), static_cast<long long>(score.correct),
              static_cast<long long>(score.images), score.loss);
}

void TrainAndWrite(const Arguments& arguments, const std::string& command) {
  const std::filesystem::path out = FolderCalled(arguments.out);
  const std::filesystem::path kept =
      arguments.checkpoints.empty() ? out.string() + "~checkpoint" : arguments.checkpoints;
  if (!arguments.overwrite && HoldsModel(out) && !HoldsCheckpoint(kept)) {
    TORCH_CHECK_VALUE(arguments.resume, out.string(), " holds a model: --overwrite replaces it");
    std::printf("%s is finished: there is nothing to go on with\n", out.c_str());
    return;
  }
  const TrainingPlan plan = PlanOf(arguments);
  const ModelFolder folder{.path = out,
                           .summary = plan.draws()
                                          ? "Ten textured shapes, drawn and trained by fovea-train."
                                          : "Trained by fovea-train.",
                           .model = plan.model,
                           .preprocessing = plan.preprocessing,
                           .labels = plan.labels};
  // Now: what is refused only when it is written or served has cost a training.
  CheckServable(folder);
  CheckWritable(folder.path);
  // Locked to the end: a second training would remove the checkpoint while it may still be needed.
  const CheckpointFolder checkpoints(kept, WholeIdentity(command, folder, plan));
  TORCH_CHECK_VALUE(arguments.overwrite || arguments.resume || !HoldsCheckpoint(kept),
                    kept.string(),
                    " holds a training that was stopped: --resume goes on with it, --overwrite "
                    "starts again");
  CsvLog csv(arguments.csv);
  ProgressBar bar(stdout);
  Train(
      *plan.backbone, *plan.task, plan.options,
      {.folder = &checkpoints, .minutes = arguments.checkpoint_minutes, .resume = arguments.resume},
      [&](const StepReport& step) { bar.Show(step); },
      [&](const EpochReport& report) {
        csv.Write(report);
        bar.Line(Describe(report, plan.options.epochs));
      });

  WriteModelFolder(folder, *plan.backbone, arguments.stored == "F16" ? at::kHalf : at::kFloat);
  if (plan.draws()) {
    PrintEvaluation(arguments.out, arguments.seed,
                    arguments.validation_images.value_or(arguments.shapes.validation_images));
  } else {
    PrintMeasures(arguments.out, *plan.task);
  }
  // Not before what was written has been served once.
  checkpoints.Remove();
}

}  // namespace fovea::models::training
