// fovea-train: trains the bundled demo models, and measures them. See README.md beside this file.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/comparison.h"
#include "model_zoo/training/data/shapes.h"
#include "model_zoo/training/evaluation.h"
#include "model_zoo/training/gallery.h"
#include "model_zoo/training/initialisation.h"
#include "model_zoo/training/linear_baseline.h"
#include "model_zoo/training/model_folder.h"
#include "model_zoo/training/report.h"
#include "model_zoo/training/trainer.h"

namespace fovea::models::training {
namespace {

struct Arguments {
  std::string out, evaluate, examples, contact_sheet;  // one of these, or of the next two
  std::vector<std::string> compare;
  bool linear_baseline = false;
  std::string backbone = "vit_demo_patch8_64", attention = "dense", start_from;
  std::string stored = "F16", arithmetic = "auto", csv;
  int threads = 0;
  TrainingOptions training;
  ComparisonOptions comparison;
};

void AddOptions(CLI::App& app, Arguments& arguments) {
  TrainingOptions& training = arguments.training;
  auto* task = app.add_option_group("what to do");
  task->add_option("--out", arguments.out,
                   "Train, and write the model into this folder, called as it is");
  task->add_option("--evaluate", arguments.evaluate,
                   "Print the validation accuracy of the model in this folder");
  task->add_option("--compare", arguments.compare,
                   "Accuracy, time and memory of the models in these folders, side by side, into "
                   "the file of --csv");
  task->add_flag("--linear-baseline", arguments.linear_baseline,
                 "Print the validation accuracy of a linear classifier on the pixels");
  task->add_option("--examples", arguments.examples, "Draw pictures for people into this folder");
  task->add_option("--contact-sheet", arguments.contact_sheet,
                   "Draw the first validation pictures into this file (.png or .jpg)");
  task->require_option(1);

  app.add_option("--backbone", arguments.backbone, "A backbone of the model zoo")
      ->capture_default_str();
  app.add_option("--attention", arguments.attention, "Its attention, for example knn:k=0.5")
      ->capture_default_str();
  app.add_option("--start-from", arguments.start_from,
                 "A model folder with the weights to start from, instead of fresh ones");
  app.add_option("--stored", arguments.stored, "The type of the weights on disk")
      ->check(CLI::IsMember({"F16", "F32"}))
      ->capture_default_str();
  app.add_option("--csv", arguments.csv,
                 "Write the loss and accuracy of each epoch, or a comparison, into this file");
  app.add_option("--arithmetic", arguments.arithmetic,
                 "Of matrix products while training; auto: bf16 where the processor multiplies it")
      ->check(CLI::IsMember({"auto", "fp32", "bf16"}))
      ->capture_default_str();
  app.add_option("--threads", arguments.threads, "Inside an operator; 0: one a core")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();

  app.add_option("--seed", training.seed, "Of the pictures and of the fresh weights")
      ->capture_default_str();
  app.add_option("--epochs", training.epochs, "Stretches of the stream of pictures")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--images-per-epoch", training.images_per_epoch, "Each picture is drawn once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch-size", training.batch_size)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--learning-rate", training.peak_learning_rate, "At the end of the warm-up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warmup-share", training.warmup_share, "Of all steps")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--guide-weight", training.guide_weight,
                 "Of the second task, the shape's place; 0: labels alone")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--guide-block", training.guide_block, "The block that the second task looks at")
      ->capture_default_str();
  app.add_option("--weight-decay", training.optimizer.weight_decay)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--label-smoothing", training.label_smoothing)
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  app.add_option("--clip-norm", training.clip_norm, "Longer gradients are scaled down")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--drawing-threads", training.drawing_threads,
                 "Batches drawn ahead of the training")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--validation-images", training.validation_images,
                 "A multiple of the number of shapes is balanced")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();

  app.add_option("--compared-images", arguments.comparison.images, "Of the test stream")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--compared-rounds", arguments.comparison.rounds,
                 "Every model is timed once in each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

// What the folder holds is measured as a server would run it: through the same reader, loader and
// preparation.
void PrintEvaluation(const std::string& folder, const TrainingOptions& options) {
  const ModelDescription description = DescribeModelFolder(folder);
  const std::unique_ptr<Model> model = LoadModel(description);
  model->Prepare(c10::kCPU, description.precision);
  const Score score =
      Evaluate(ClassifierOf(*model), options.seed, Stream::kValidation, options.validation_images);
  std::printf("%s: %s, attention %s: validation accuracy %.2f%% (%lld of %lld), loss %.4f\n",
              folder.c_str(), model->info().backbone.c_str(), model->info().attention.c_str(),
              100 * score.accuracy(), static_cast<long long>(score.correct),
              static_cast<long long>(score.images), score.loss);
}

void WriteComparison(const Arguments& arguments) {
  TORCH_CHECK_VALUE(!arguments.csv.empty(), "--compare writes the file of --csv");
  ComparisonOptions options = arguments.comparison;
  options.seed = arguments.training.seed;
  const std::vector<ComparedModel> models =
      Compare({arguments.compare.begin(), arguments.compare.end()}, options);
  for (const ComparedModel& model : models) {
    std::printf("%s: accuracy %.2f%% (%lld of %lld), %.3f ms, %.3f ms a batch of 16\n",
                model.folder.c_str(), 100 * model.score.accuracy(),
                static_cast<long long>(model.score.correct),
                static_cast<long long>(model.score.images), model.milliseconds[0],
                model.milliseconds[1]);
  }
  WriteCsv(models, arguments.csv);
}

void PrintLinearBaseline(const TrainingOptions& training) {
  const LinearBaselineOptions options{.seed = training.seed,
                                      .validation_images = training.validation_images};
  double best = 0;
  MeasureLinearBaseline(options, [&best](const LinearBaselineResult& result) {
    std::printf("weight decay %g: training accuracy %.2f%%, validation accuracy %.2f%%\n",
                result.weight_decay, 100 * result.training_accuracy,
                100 * result.validation_accuracy);
    std::fflush(stdout);
    best = std::max(best, result.validation_accuracy);
  });
  std::printf("linear classifier on the pixels: validation accuracy %.2f%% at best\n", 100 * best);
}

std::shared_ptr<Backbone> MakeBackbone(const Arguments& arguments) {
  ModelDescription description{.name = arguments.out,
                               .backbone = arguments.backbone,
                               .attention = {arguments.attention},
                               .num_classes = kNumShapes};
  if (!arguments.start_from.empty()) {
    description.weights = DescribeModelFolder(arguments.start_from).weights;
    return LoadBackbone(description);
  }
  description.random_weights_seed = arguments.training.seed;
  std::shared_ptr<Backbone> backbone = LoadBackbone(description);
  InitialiseForSmallData(*backbone);
  return backbone;
}

void TrainAndWrite(const Arguments& arguments) {
  const std::shared_ptr<Backbone> backbone = MakeBackbone(arguments);
  CsvLog csv(arguments.csv);
  ProgressBar bar(stdout);
  Train(
      *backbone, arguments.training, [&](const StepReport& step) { bar.Show(step); },
      [&](const EpochReport& report) {
        csv.Write(report);
        bar.Line(Describe(report, arguments.training.epochs));
      });
  const ModelFolder folder{.path = arguments.out,
                           .summary = "Ten textured shapes, drawn and trained by fovea-train.",
                           .backbone = arguments.backbone,
                           .attention = arguments.attention};
  WriteModelFolder(folder);
  SaveWeights(folder.path / "1/model.safetensors", *backbone,
              arguments.stored == "F16" ? at::kHalf : at::kFloat);
  PrintEvaluation(arguments.out, arguments.training);
}

// Elsewhere bfloat16 is emulated, and slower than fp32.
bool MultipliesBf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

void Run(Arguments& arguments) {
  if (arguments.threads > 0) at::set_num_threads(arguments.threads);
  arguments.training.bf16 =
      arguments.arithmetic == "bf16" || (arguments.arithmetic == "auto" && MultipliesBf16());
  if (!arguments.out.empty()) {
    TrainAndWrite(arguments);
  } else if (!arguments.evaluate.empty()) {
    PrintEvaluation(arguments.evaluate, arguments.training);
  } else if (!arguments.compare.empty()) {
    WriteComparison(arguments);
  } else if (arguments.linear_baseline) {
    PrintLinearBaseline(arguments.training);
  } else if (!arguments.examples.empty()) {
    WriteExamples(arguments.training.seed, arguments.examples);
  } else {
    WriteContactSheet(arguments.training.seed, Stream::kValidation, /*rows=*/16, /*side=*/64,
                      arguments.contact_sheet);
  }
}

}  // namespace
}  // namespace fovea::models::training

int main(int argc, char** argv) {
  // The activations of every step are freed and asked for again: kept, instead of mapped and
  // cleared by the kernel each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);

  fovea::models::training::Arguments arguments;
  CLI::App app("Trains and measures Fovea's demo models on pictures that it draws itself.");
  fovea::models::training::AddOptions(app, arguments);
  CLI11_PARSE(app, argc, argv);
  try {
    fovea::models::training::Run(arguments);
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "fovea-train: %s\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fovea-train: %s\n", error.what());
    return 1;
  }
}
