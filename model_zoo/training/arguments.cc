#include "model_zoo/training/arguments.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "model_zoo/training/training_defaults.h"

namespace fovea::models::training {
namespace {

// As people write it: 0.002.
std::string Text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}
std::string Text(int64_t value) { return std::to_string(value); }

void AddCommands(CLI::App& app, Arguments& arguments) {
  auto* commands = app.add_option_group("what to do");
  commands->add_option("--out", arguments.out,
                       "Train, and write the model into this folder, called as it is");
  commands->add_option("--evaluate", arguments.evaluate,
                       "Print the validation accuracy of the classifier in this folder");
  commands->add_option("--compare", arguments.compare,
                       "Accuracy, time and memory of the models in these folders, side by side, "
                       "into the file of --csv");
  commands->add_flag("--linear-baseline", arguments.linear_baseline,
                     "Print the validation accuracy of a linear classifier on the pixels");
  commands->add_option("--examples", arguments.examples,
                       "Draw pictures for people into this folder");
  commands->add_option("--contact-sheet", arguments.contact_sheet,
                       "Draw the first validation pictures into this file (.png or .jpg)");
  commands->add_option(
      "--write-scenes", arguments.write_scenes,
      "Draw scenes that no training sees into this folder, with boxes and masks as "
      "COCO's JSON and class maps as PNG");
  commands->add_option("--write-shapes", arguments.write_shapes,
                       "Draw pictures of one shape that no training sees into this folder, with a "
                       "folder for each shape");
  commands->require_option(1);
}

void AddModel(CLI::App& app, Arguments& arguments) {
  const DetectionOptions usual;
  std::vector<std::string> tasks;
  for (const Task task : kTasks) tasks.emplace_back(NamesOf(task).in_words);
  app.add_option("--task", arguments.task,
                 "What is learned; without it what --head or the data says, or classification")
      ->check(CLI::IsMember(tasks));
  auto* data = app.add_option("--data", arguments.data,
                              "Learn from this folder: a folder of images for each class, COCO's "
                              "JSON, or images with masks as PNG; see docs/measuring/datasets.md");
  app.add_option(
         "--images", arguments.images,
         "Where the pictures of COCO's JSON are, where that is neither in --data nor beside "
         "the JSON")
      ->needs(data);
  app.add_flag("--scenes", arguments.scenes,
               "Learn from generated scenes of several shapes, with boxes, masks and class maps")
      ->excludes(data);
  app.add_option("--from", arguments.from,
                 "A model folder with the weights to start from, as far as they fit; of the model "
                 "too what is not said here");
  app.add_option("--backbone", arguments.backbone,
                 "A backbone of the model zoo; without it --from's, or the small one of the task");
  app.add_option("--attention", arguments.attention,
                 "Its attention, for example knn:k=0.5; without it --from's, or the published one");
  app.add_option(
      "--head", arguments.head,
      "A head of the model zoo, for example mask_rcnn; without it --from's, or the task's "
      "usual one");
  app.add_option("--head-channels", arguments.head_channels,
                 "The head's width; without it --from's, or 0: as it was published")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--conventions", arguments.conventions,
                 "Of a detector; without it --from's, or TORCHVISION")
      ->check(CLI::IsMember({"TORCHVISION", "MMDETECTION"}));
  app.add_option("--score-threshold", arguments.score_threshold,
                 "Of the detector, as it is written into its folder; without it --from's, or " +
                     Text(usual.score_threshold))
      ->check(CLI::Range(0.0, 0.999));
  app.add_option("--nms-iou", arguments.nms_iou,
                 "Of the detector: of two boxes of one class that overlap by a larger IoU, one "
                 "stays; without it --from's, or " +
                     Text(usual.nms_iou))
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--detections-per-image", arguments.detections_per_image,
                 "Of the detector, at most; without it --from's, or 0: as the head was published")
      ->check(CLI::Range(0, 1000));
  app.add_option("--image-size", arguments.image_size,
                 "The side of the model's input, and of what holds a picture of --write-scenes, or "
                 "is one of --write-shapes; without it --from's, of scenes " +
                     Text(int64_t{kSceneSide}) + ", or the backbone's own")
      ->check(CLI::PositiveNumber);
}

void AddTraining(CLI::App& app, Arguments& arguments) {
  TrainingOptions& training = arguments.training;
  app.add_option("--seed", arguments.seed,
                 "Of what is drawn, the order of the data and the fresh weights")
      ->capture_default_str();
  app.add_option("--epochs", arguments.epochs,
                 "Of the data, or stretches of what is drawn; " + Text(int64_t{training.epochs}) +
                     ", of scenes and data " + Text(int64_t{kDefaultEpochs}))
      ->check(CLI::PositiveNumber);
  app.add_option("--images-per-epoch", arguments.images_per_epoch,
                 Text(kShapesPerEpoch) + ", of scenes " + Text(kScenesPerEpoch) +
                     "; without it all of the data")
      ->check(CLI::PositiveNumber);
  app.add_option(
         "--batch-size", arguments.batch_size,
         Text(arguments.shapes.batch_size) + ", of scenes and data " + Text(kDefaultBatchSize))
      ->check(CLI::PositiveNumber);
  app.add_option("--learning-rate", arguments.learning_rate,
                 "At the end of the warm-up; " + Text(training.peak_learning_rate) +
                     ", of detectors and segmenters " + Text(kDefaultHeadLearningRate))
      ->check(CLI::PositiveNumber);
  app.add_option("--warmup-share", training.warmup_share, "Of all steps")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--weight-decay", training.optimizer.weight_decay,
                 "This share of each weight, times the learning rate, is taken from it at each "
                 "step; not of biases, norms and embeddings")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--clip-norm", training.clip_norm, "Longer gradients are scaled down")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--guide-weight", arguments.shapes.guide_weight,
                 "Of the second task of the generated pictures, the shape's place; 0: labels alone")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--guide-block", arguments.shapes.guide_block,
                 "The block that the second task looks at")
      ->capture_default_str();
  app.add_option("--label-smoothing", arguments.label_smoothing, "Of classifiers")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  app.add_option("--box-loss", arguments.box_loss, "Of RetinaNet")
      ->check(CLI::IsMember({"giou", "smooth_l1"}))
      ->capture_default_str();
  app.add_option("--flip", arguments.augmentation.flip, "How often pictures are mirrored")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--patience", training.patience,
                 "End after so many epochs that are no better than the best; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--keep", arguments.keep, "Which weights are written: of which epoch")
      ->check(CLI::IsMember({"best", "last"}))
      ->capture_default_str();
  app.add_option("--validation-images", arguments.validation_images,
                 Text(arguments.shapes.validation_images) + ", of scenes " +
                     Text(kValidationScenes) + "; without it all of the data's")
      ->check(CLI::PositiveNumber);
}

void AddRun(CLI::App& app, Arguments& arguments) {
  app.add_option("--checkpoints", arguments.checkpoints,
                 "Where the training is kept while it runs; without it beside --out, with "
                 "'~checkpoint' behind its name");
  app.add_option("--checkpoint-minutes", arguments.checkpoint_minutes,
                 "Between two checkpoints, besides that of each epoch")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag(
      "--resume", arguments.resume,
      "Go on where the same command stopped; from the start where there is nothing, and not at all "
      "where it was done");
  app.add_flag("--overwrite", arguments.overwrite,
               "Replace the model that --out holds, and the training that was stopped there");
  app.add_option("--stored", arguments.stored,
                 "The type of the weights on disk; what F16 does not hold is F32")
      ->check(CLI::IsMember({"F16", "F32"}))
      ->capture_default_str();
  app.add_option("--csv", arguments.csv,
                 "Write the loss and measures of each epoch, or a comparison, into this file");
  app.add_option("--arithmetic", arguments.arithmetic,
                 "Of matrix products while training; auto: bf16 where the processor multiplies it")
      ->check(CLI::IsMember({"auto", "fp32", "bf16"}))
      ->capture_default_str();
  app.add_option("--threads", arguments.threads, "Inside an operator; 0: one a core")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--drawing-threads,--loading-threads", arguments.loading_threads,
                 "Batches made ahead of the training")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--scene-count", arguments.scene_count, "Of --write-scenes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--shape-count", arguments.shape_count, "Of --write-shapes")
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

// Elsewhere bfloat16 is emulated, and slower than fp32.
bool MultipliesBf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace

bool Arguments::bf16() const {
  return arithmetic == "bf16" || (arithmetic == "auto" && MultipliesBf16());
}

void AddOptions(CLI::App& app, Arguments& arguments) {
  AddCommands(app, arguments);
  AddModel(app, arguments);
  AddTraining(app, arguments);
  AddRun(app, arguments);
}

std::string CommandIdentity(const CLI::App& app) {
  constexpr std::array<std::string_view, 8> kWithout = {
      "out", "checkpoints",     "checkpoint-minutes", "resume",
      "csv", "drawing-threads", "overwrite",          "stored"};
  std::istringstream all(app.config_to_str(/*default_also=*/true));
  std::string identity;
  for (std::string line; std::getline(all, line);) {
    const std::string name = line.substr(0, line.find('='));
    if (!line.empty() && std::ranges::find(kWithout, name) == kWithout.end()) {
      identity += line + "\n";
    }
  }
  return identity;
}

}  // namespace fovea::models::training
