// fovea-train: trains models, the bundled ones among them, and measures classifiers. See README.md
// beside this file.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/lost_output.h"
#include "kernels/barrier_waits.h"
#include "kernels/threads.h"
#include "model_zoo/training/arguments.h"
#include "model_zoo/training/comparison/comparison.h"
#include "model_zoo/training/comparison/linear_baseline.h"
#include "model_zoo/training/data/generated/scene.h"
#include "model_zoo/training/data/user_data/write_data_set.h"
#include "model_zoo/training/gallery.h"
#include "model_zoo/training/train_command.h"
#include "model_zoo/training/training_defaults.h"

namespace fovea::models::training {
namespace {

void WriteComparison(const Arguments& arguments) {
  TORCH_CHECK_VALUE(!arguments.csv.empty(), "--compare writes the file of --csv");
  ComparisonOptions options = arguments.comparison;
  options.seed = arguments.seed;
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

// Of the test stream.
void WriteScenes(const Arguments& arguments) {
  const int side = arguments.image_size > 0 ? static_cast<int>(arguments.image_size) : kSceneSide;
  const Scenes scenes({.seed = arguments.seed, .stream = Stream::kTest, .sizes = SceneSizes(side)});
  WriteDataSet(scenes, 0, static_cast<uint64_t>(arguments.scene_count), arguments.write_scenes);
}

void PrintLinearBaseline(const LinearBaselineOptions& options) {
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

void Run(const Arguments& arguments, const std::string& command) {
  if (arguments.threads > 0) at::set_num_threads(arguments.threads);
  kernels::ShortenTimeSlices();
  const kernels::AdaptiveBarrierWaits waits(at::get_num_threads());
  const int64_t validation_images =
      arguments.validation_images.value_or(arguments.shapes.validation_images);
  if (!arguments.out.empty()) {
    TrainAndWrite(arguments, command);
  } else if (!arguments.evaluate.empty()) {
    PrintEvaluation(arguments.evaluate, arguments.seed, validation_images);
  } else if (!arguments.compare.empty()) {
    WriteComparison(arguments);
  } else if (arguments.linear_baseline) {
    PrintLinearBaseline({.seed = arguments.seed, .validation_images = validation_images});
  } else if (!arguments.write_scenes.empty()) {
    WriteScenes(arguments);
  } else if (!arguments.write_shapes.empty()) {
    const int side = arguments.image_size > 0 ? static_cast<int>(arguments.image_size) : 64;
    WriteShapes(arguments.seed, arguments.shape_count, side, arguments.write_shapes);
  } else if (!arguments.examples.empty()) {
    WriteExamples(arguments.seed, arguments.examples);
  } else {
    WriteContactSheet(arguments.seed, Stream::kValidation, /*rows=*/16, /*side=*/64,
                      arguments.contact_sheet);
  }
}

}  // namespace
}  // namespace fovea::models::training

int main(int argc, char** argv) {
  fovea::FailWhereOutputIsLost("fovea-train");
  // The activations of every step are freed and asked for again: kept, instead of mapped and
  // cleared by the kernel each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);

  fovea::models::training::Arguments arguments;
  CLI::App app(
      "Trains classifiers, detectors and segmenters, on your data or on pictures that it draws "
      "itself.");
  fovea::models::training::AddOptions(app, arguments);
  app.failure_message(fovea::RefusalMessage);
  CLI11_PARSE(app, argc, argv);
  try {
    fovea::models::training::Run(arguments, fovea::models::training::CommandIdentity(app));
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "fovea-train: %s\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fovea-train: %s\n", error.what());
    return 1;
  }
}
