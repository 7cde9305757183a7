#include "model_zoo/training/training_plan.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/did_you_mean.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/data/generated/scene.h"
#include "model_zoo/training/data/generated/shapes.h"
#include "model_zoo/training/data/user_data/readable.h"
#include "model_zoo/training/data/user_data/user_data.h"
#include "model_zoo/training/optimisation/initialisation.h"
#include "model_zoo/training/report.h"
#include "model_zoo/training/tasks/classification_task.h"
#include "model_zoo/training/tasks/detection_task.h"
#include "model_zoo/training/tasks/segmentation_task.h"
#include "model_zoo/training/training_defaults.h"

namespace fovea::models::training {
namespace {

// The task that data of this layout is for; of several, that of the model to start from.
Task TaskOfData(const std::string& folder, const std::optional<ModelDescription>& from) {
  const std::vector<Task> fits = TasksOf(folder);
  if (from && std::ranges::find(fits, from->task) != fits.end()) return from->task;
  TORCH_CHECK_VALUE(fits.size() == 1, folder,
                    " holds data for detection and for segmentation: say which with --task");
  return fits.front();
}

Task TaskOf(const Arguments& arguments, const std::optional<ModelDescription>& from) {
  for (const Task task : kTasks) {
    if (arguments.task == NamesOf(task).in_words) return task;
  }
  if (!arguments.head.empty()) {
    const auto head = std::ranges::find(Heads(), arguments.head, &HeadEntry::name);
    TORCH_CHECK_VALUE(head != Heads().end(), "there is no head '", arguments.head, "'",
                      DidYouMean(arguments.head, Heads(), &HeadEntry::name));
    return head->task;
  }
  if (!arguments.data.empty()) return TaskOfData(arguments.data, from);
  if (!arguments.scenes) return Task::kClassification;
  return from && from->task == Task::kSegmentation ? Task::kSegmentation : Task::kDetection;
}

// What is learned from; nothing for the generated pictures of one shape, which their task draws.
TrainingData OpenData(const Arguments& arguments, const ModelDescription& model) {
  if (!arguments.data.empty()) {
    ReadingLines lines(stderr);
    return OpenUserData(arguments.data, model.task,
                        {.images = arguments.images,
                         .progress = [&lines](const char* what, uint64_t done, uint64_t all) {
                           lines.Show(what, done, all);
                         }});
  }
  if (!arguments.scenes) return {};
  const auto side = static_cast<int>(model.image_height);
  Scenes::Options options{.seed = arguments.seed, .sizes = SceneSizes(side)};
  TrainingData data;
  data.training = std::make_shared<Scenes>(options);
  options.stream = Stream::kValidation;
  options.count = static_cast<uint64_t>(arguments.validation_images.value_or(kValidationScenes));
  data.validation = std::make_shared<Scenes>(options);
  return data;
}

// Of the head that the model names; where there is no such head, that is told when it is built.
int64_t BackgroundClassesOf(const ModelDescription& model) {
  const auto head = std::ranges::find(Heads(), model.head, &HeadEntry::name);
  if (head == Heads().end() || head->background_classes == nullptr) return 0;
  return head->background_classes(model.detection);
}

// The labels of a model that learns from `data`, in the order of its classes.
std::vector<std::string> LabelsOf(const TrainingData& data, const ModelDescription& model) {
  std::vector<std::string> labels;
  if (!data.training) {
    for (int i = 0; i < kNumShapes; ++i) labels.emplace_back(Name(static_cast<Shape>(i)));
  } else if (model.task == Task::kSegmentation) {
    labels = data.training->map_labels();
  } else {
    labels = data.training->labels();
    labels.insert(labels.begin(), BackgroundClassesOf(model), "background");
  }
  return labels;
}

// Without the head, which tells its own: the model that the training starts from, or the small one
// of the task.
ModelDescription UsualModel(const Arguments& arguments, Task task,
                            const std::optional<ModelDescription>& from) {
  if (from && (arguments.backbone.empty() || arguments.backbone == from->backbone)) {
    ModelDescription model{.backbone = from->backbone,
                           .attention = from->attention,
                           .vit = from->vit,
                           .window_padding = from->window_padding};
    // The input of a training is a square.
    if (from->image_height == from->image_width) {
      model.image_height = model.image_width = from->image_height;
    }
    TORCH_CHECK_VALUE(model.image_height == from->image_height || arguments.image_size > 0,
                      "the input of ", arguments.from, " is ", from->image_width, " x ",
                      from->image_height, ", and that of a training is a square: say --image-size");
    return model;
  }
  const bool draws = !arguments.scenes && arguments.data.empty();
  const bool shapes = task == Task::kClassification && draws;
  ModelDescription model{.backbone = arguments.backbone};
  if (model.backbone.empty()) model.backbone = shapes ? "vit_demo_patch8_64" : "linglo_demo";
  if (model.backbone == "vit_demo_patch8_64") model.attention = {"dense"};
  return model;
}

void DescribeHead(const Arguments& arguments, const std::optional<ModelDescription>& from,
                  ModelDescription& model) {
  const std::string usual = std::ranges::find(Heads(), model.task, &HeadEntry::task)->name;
  model.head = arguments.head;
  if (from && from->task == model.task) {
    const std::string& of_from = from->head.empty() ? usual : from->head;
    if (model.head.empty()) model.head = of_from;
    if (model.head == of_from) {
      model.head_channels = from->head_channels;
      model.detection = from->detection;
    }
  }
  if (model.head.empty()) model.head = usual;
  model.head_channels = arguments.head_channels.value_or(model.head_channels);
  DetectionOptions& detection = model.detection;
  if (arguments.conventions) {
    detection.conventions = *arguments.conventions == "TORCHVISION" ? Conventions::kTorchvision
                                                                    : Conventions::kMmdetection;
  }
  detection.score_threshold = arguments.score_threshold.value_or(detection.score_threshold);
  detection.nms_iou = arguments.nms_iou.value_or(detection.nms_iou);
  detection.detections_per_image =
      arguments.detections_per_image.value_or(detection.detections_per_image);
}

ModelDescription DescriptionOf(const Arguments& arguments,
                               const std::optional<ModelDescription>& from) {
  const Task task = TaskOf(arguments, from);
  ModelDescription model = UsualModel(arguments, task, from);
  model.name = arguments.out;
  model.task = task;
  if (!arguments.attention.empty()) model.attention = {arguments.attention};
  if (task != Task::kClassification) DescribeHead(arguments, from, model);
  if (arguments.image_size > 0) model.image_height = model.image_width = arguments.image_size;
  // Scenes are drawn as large as the input.
  if (arguments.scenes && model.image_height == 0) {
    model.image_height = model.image_width = kSceneSide;
  }
  return model;
}

void PrintNames(const char* what, const std::vector<std::string>& names) {
  constexpr size_t kListed = 6;
  std::printf("  %s: %zu", what, names.size());
  for (size_t i = 0; i < std::min(kListed, names.size()); ++i) {
    std::printf("%s%s", i == 0 ? " (" : ", ", names[i].c_str());
  }
  std::printf("%s\n", names.empty() ? "" : names.size() > kListed ? ", ...)" : ")");
}

// Filled with fresh weights, and over them with what `from` has for it.
std::shared_ptr<Backbone> MakeBackbone(ModelDescription model, const Arguments& arguments,
                                       const std::optional<ModelDescription>& from) {
  model.random_weights_seed = arguments.seed;
  std::shared_ptr<Backbone> backbone = LoadBackbone(model);
  InitialiseForSmallData(*backbone);
  if (!from) return backbone;
  const SafetensorsFile file(from->weights);
  const FittedWeights fitted = LoadFittingWeights(file, *backbone);
  const ModelInfo& info = backbone->info();
  std::printf("from %s: %s%s%s, attention %s, %lld x %lld pixels\n", arguments.from.c_str(),
              model.backbone.c_str(), model.head.empty() ? "" : " with ", model.head.c_str(),
              info.attention.c_str(), static_cast<long long>(info.image_width),
              static_cast<long long>(info.image_height));
  PrintNames("kept", fitted.kept);
  PrintNames("new here", fitted.fresh);
  PrintNames("dropped", fitted.dropped);
  TORCH_CHECK_VALUE(!fitted.kept.empty(), "none of the weights of ", arguments.from, " fit ",
                    model.backbone);
  return backbone;
}

SampleBatchOptions SamplesOf(const Arguments& arguments, const Preprocessing& preprocessing,
                             int64_t batch_size) {
  // Every scene is new: nothing is gained by changing it.
  std::optional<AugmentationOptions> augmentation;
  if (!arguments.scenes) augmentation = arguments.augmentation;
  return {.seed = arguments.seed,
          .batch_size = batch_size,
          .augmentation = augmentation,
          .threads = arguments.loading_threads,
          .validation_images = arguments.validation_images.value_or(0),
          .preprocessing = preprocessing,
          .tell = TellBesideTheBar};
}

// Pictures are left out whose masks take too much at the size of the images, where the task learns
// masks.
void LeaveOutLargeMasks(const Backbone& backbone, TrainingData& data) {
  if (!LearnsMasks(backbone)) return;
  const ModelInfo& info = backbone.info();
  const int64_t pixels = info.image_height * info.image_width;
  const size_t told = data.notes.size();
  data.training = WithoutLargeMasks(data.training, pixels, data.notes);
  const size_t of_training = data.notes.size();
  data.validation = WithoutLargeMasks(data.validation, pixels, data.notes);
  for (size_t i = told; i < data.notes.size(); ++i) {
    std::printf("%s%s\n", i < of_training ? "" : "validation: ", data.notes[i].c_str());
  }
}

std::unique_ptr<TrainingTask> MakeTask(const TrainingPlan& plan, const Arguments& arguments,
                                       int64_t batch_size) {
  Backbone& backbone = *plan.backbone;
  if (plan.draws()) {
    ShapeClassificationOptions options = arguments.shapes;
    options.label_smoothing = arguments.label_smoothing;
    options.seed = arguments.seed;
    options.batch_size = batch_size;
    options.bf16 = arguments.bf16();
    options.drawing_threads = arguments.loading_threads;
    options.validation_images = arguments.validation_images.value_or(options.validation_images);
    return MakeShapeClassificationTask(backbone, options);
  }
  const SampleSources sources{*plan.data.training, *plan.data.validation};
  const SampleBatchOptions samples = SamplesOf(arguments, plan.preprocessing, batch_size);
  if (plan.model.task == Task::kDetection) {
    DetectionTrainingOptions options{.samples = samples, .bf16 = arguments.bf16()};
    if (arguments.box_loss == "smooth_l1") options.anchors.box_loss = BoxLoss::kSmoothL1;
    return MakeDetectionTask(backbone, sources, options);
  }
  if (plan.model.task == Task::kSegmentation) {
    return MakeSegmentationTask(backbone, sources, {.samples = samples, .bf16 = arguments.bf16()});
  }
  return MakeClassificationTask(
      backbone, sources,
      {.samples = samples, .label_smoothing = arguments.label_smoothing, .bf16 = arguments.bf16()});
}

// As the pictures are that the task learns from: weights of `from` go on with the colours that they
// know.
Preprocessing PreprocessingOf(const ModelInfo& info, const TrainingData& data,
                              const Arguments& arguments,
                              const std::optional<ModelDescription>& from) {
  Preprocessing preprocessing = info.preprocessing;
  if (from && from->backbone == info.backbone) {
    const Preprocessing known = PreprocessingOfModelFolder(arguments.from, info.preprocessing);
    preprocessing.mean = known.mean;
    preprocessing.std = known.std;
  }
  preprocessing.interpolation = Interpolation::kBilinear;
  preprocessing.crop_fraction = 1;
  if (!data.training) preprocessing.mean = preprocessing.std = {0.5f, 0.5f, 0.5f};
  return preprocessing;
}

// All of the data where nothing is said, the last batch a whole one of this epoch and the next.
int64_t StepsPerEpoch(const Arguments& arguments, const TrainingData& data, int64_t batch_size) {
  if (arguments.images_per_epoch || !data.training || arguments.scenes) {
    const int64_t usual = arguments.scenes ? kScenesPerEpoch : kShapesPerEpoch;
    return std::max<int64_t>(1, arguments.images_per_epoch.value_or(usual) / batch_size);
  }
  const auto images = static_cast<int64_t>(data.training->size());
  return (images + batch_size - 1) / batch_size;
}

TrainingOptions OptionsOf(const Arguments& arguments, const TrainingPlan& plan,
                          int64_t batch_size) {
  TrainingOptions options = arguments.training;
  options.epochs = arguments.epochs.value_or(plan.draws() ? options.epochs : kDefaultEpochs);
  const bool classifies = plan.model.task == Task::kClassification;
  options.peak_learning_rate = arguments.learning_rate.value_or(
      classifies ? options.peak_learning_rate : kDefaultHeadLearningRate);
  options.steps_per_epoch = StepsPerEpoch(arguments, plan.data, batch_size);
  options.keep_best = arguments.keep == "best";
  return options;
}

}  // namespace

TrainingPlan PlanOf(const Arguments& arguments) {
  std::optional<ModelDescription> from;
  if (!arguments.from.empty()) from = DescribeModelFolder(arguments.from);
  TrainingPlan plan{.model = DescriptionOf(arguments, from)};
  const bool draws = !arguments.scenes && arguments.data.empty();
  TORCH_CHECK_VALUE(!draws || plan.model.task == Task::kClassification,
                    "a detector or segmenter learns from --scenes or --data");
  plan.data = OpenData(arguments, plan.model);
  for (const std::string& note : plan.data.notes) std::printf("%s\n", note.c_str());
  plan.labels = LabelsOf(plan.data, plan.model);
  plan.model.num_classes = static_cast<int64_t>(plan.labels.size());
  plan.backbone = MakeBackbone(plan.model, arguments, from);
  const ModelInfo& info = plan.backbone->info();
  if (!draws) {
    plan.model.image_height = info.image_height;
    plan.model.image_width = info.image_width;
    if (!arguments.data.empty()) LeaveOutLargeMasks(*plan.backbone, plan.data);
  }
  plan.preprocessing = PreprocessingOf(info, plan.data, arguments, from);
  const int64_t batch_size =
      arguments.batch_size.value_or(draws ? arguments.shapes.batch_size : kDefaultBatchSize);
  plan.options = OptionsOf(arguments, plan, batch_size);
  plan.task = MakeTask(plan, arguments, batch_size);
  return plan;
}

}  // namespace fovea::models::training
