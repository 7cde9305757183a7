#include "server/quantize/quantize.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/folder/labels.h"
#include "model_zoo/folder/names.h"
#include "model_zoo/folder/quantized_spec.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/registry/heads.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/weights/pending_file.h"
#include "server/quantize/picture_reader.h"

namespace fovea {
namespace {

constexpr char kVersion[] = "1", kSpec[] = "model.textproto";
constexpr size_t kBatch = 16;
constexpr size_t kFewPictures = 8, kKeptBack = 4;  // of fewer none, else every fourth, is kept back

// Absolute, links followed, without a slash behind it, so that it has a name.
std::filesystem::path Named(const std::filesystem::path& path) {
  std::filesystem::path named = std::filesystem::weakly_canonical(std::filesystem::absolute(path));
  return named.has_filename() ? named : named.parent_path();
}

absl::Status ExistsAlready(const std::filesystem::path& out) {
  return absl::AlreadyExistsError(
      absl::StrCat(out.string(), " exists already; --out names another folder"));
}

absl::Status CheckOut(const std::filesystem::path& out) {
  FOVEA_RETURN_IF_ERROR(CheckModelName(out.filename().string()));
  std::error_code error;
  const bool there = std::filesystem::exists(std::filesystem::symlink_status(out, error));
  return there ? ExistsAlready(out) : absl::OkStatus();
}

// Makes the folder where it has not appeared since CheckOut: what is in it is then this run's.
absl::Status MakeOut(const std::filesystem::path& out) {
  std::filesystem::create_directories(out.parent_path());
  return std::filesystem::create_directory(out) ? absl::OkStatus() : ExistsAlready(out);
}

std::unique_ptr<models::Model> Served(models::ModelDescription description,
                                      models::Precision precision) {
  std::unique_ptr<models::Model> model = models::LoadModel(description);
  model->Prepare(c10::kCPU, precision);
  return model;
}

struct Pictures {
  std::vector<PictureFile> calibration, measured;
  bool measured_on_its_own = false;
};

absl::StatusOr<Pictures> PicturesOf(const QuantizeOptions& options,
                                    const std::vector<std::string>& labels) {
  Pictures pictures;
  FOVEA_ASSIGN_OR_RETURN(pictures.calibration,
                         PicturesBelow(options.calibration, options.most_pictures));
  if (!options.dataset.empty()) {
    if (labels.empty()) {
      return absl::FailedPreconditionError(
          "the model has no labels.txt, by which the folders of --dataset are its classes");
    }
    FOVEA_ASSIGN_OR_RETURN(pictures.measured,
                           LabelledPictures(options.dataset, labels, options.most_pictures));
  } else if (pictures.calibration.size() < kFewPictures) {
    pictures.measured = pictures.calibration;
    pictures.measured_on_its_own = true;
  } else {
    std::vector<PictureFile> all = std::exchange(pictures.calibration, {});
    for (size_t i = 0; i < all.size(); ++i) {
      (i % kKeptBack == 0 ? pictures.measured : pictures.calibration).push_back(std::move(all[i]));
    }
  }
  return pictures;
}

// Writes the folder: its weights first, and last what makes it one.
absl::Status Write(const QuantizeOptions& options, const std::filesystem::path& out,
                   const models::Backbone& backbone, const std::vector<std::string>& labels,
                   int64_t pictures) {
  FOVEA_ASSIGN_OR_RETURN(const std::string text, FileContents(options.model / kSpec));
  const std::string summary =
      absl::StrCat("By fovea quantize, of ", Named(options.model).filename().string(),
                   ", calibrated with ", pictures, " pictures.");
  FOVEA_ASSIGN_OR_RETURN(const std::string spec,
                         QuantizedSpec(text, out.filename().string(), summary));
  std::filesystem::create_directory(out / kVersion);
  models::SaveWeights(out / kVersion / "model.safetensors", backbone, at::kFloat);
  if (!labels.empty()) {
    FOVEA_ASSIGN_OR_RETURN(const std::string lines, LabelsText(labels));
    models::PendingFile file(out / kLabelsFile);
    file.Write(lines.data(), lines.size());
    file.Commit();
  }
  models::PendingFile file(out / kSpec);
  file.Write(spec.data(), spec.size());
  file.Commit();
  return absl::OkStatus();
}

absl::StatusOr<QuantizeReport> QuantizeOrThrow(const QuantizeOptions& options) {
  const ModelVersionOnDisk source = DescribeModelVersion(options.model, std::nullopt);
  const models::ModelDescription& description = source.description;
  if (description.task != models::Task::kClassification) {
    return absl::InvalidArgumentError(absl::StrCat(
        "calibration is measured by the classes of whole pictures, and this model is for ",
        models::NamesOf(description.task).in_words,
        ". With precision: INT8 in its model.textproto it runs in 8 bits, each token by its own "
        "largest value"));
  }
  QuantizeReport report{.model = Named(options.model).filename().string()};
  report.out =
      Named(options.out.empty() ? Named(options.model).string() + "_int8" : options.out.string());
  FOVEA_RETURN_IF_ERROR(CheckOut(report.out));
  FOVEA_ASSIGN_OR_RETURN(const Pictures pictures, PicturesOf(options, source.labels));

  const std::shared_ptr<models::Backbone> backbone =
      models::LoadBackbone(description, models::Heads());
  backbone->eval();
  const models::Preprocessing preprocessing =
      PreprocessingOfModelFolder(options.model, backbone->info().preprocessing);
  const PictureReader reader(backbone->info(), preprocessing);
  absl::Status read;
  report.layers = models::CalibrateInputScales(*backbone, [&] {
    for (size_t i = 0; i < pictures.calibration.size() && read.ok(); i += kBatch) {
      const auto some = std::span(pictures.calibration)
                            .subspan(i, std::min(kBatch, pictures.calibration.size() - i));
      const auto pixels = reader.Read(some);
      read = pixels.status();
      models::ForwardContext context;
      if (read.ok()) backbone->forward(*pixels, context);
    }
  });
  FOVEA_RETURN_IF_ERROR(read);
  report.calibrated_with = static_cast<int64_t>(pictures.calibration.size());
  report.measured_on_its_own = pictures.measured_on_its_own;

  FOVEA_RETURN_IF_ERROR(MakeOut(report.out));
  absl::Cleanup remove = [&] {
    std::error_code error;
    std::filesystem::remove_all(report.out, error);
  };
  FOVEA_RETURN_IF_ERROR(
      Write(options, report.out, *backbone, source.labels, report.calibrated_with));
  const auto fp32 = Served(description, models::Precision::kFp32);
  const auto quantized = Served(DescribeModelFolder(report.out), models::Precision::kInt8);
  report.weight_bytes_fp32 = fp32->weight_bytes();
  report.weight_bytes = quantized->weight_bytes();
  FOVEA_ASSIGN_OR_RETURN(
      report.agreement, CompareClasses(*fp32, *quantized, description.classifier_activation, reader,
                                       pictures.measured));
  report.at_batch_1 = MeasureSpeeds(*fp32, *quantized, 1);
  report.at_batch_8 = MeasureSpeeds(*fp32, *quantized, 8);
  std::move(remove).Cancel();
  return report;
}

}  // namespace

absl::StatusOr<QuantizeReport> Quantize(const QuantizeOptions& options) try {
  return QuantizeOrThrow(options);
} catch (const c10::Error& error) {
  return absl::InvalidArgumentError(error.what_without_backtrace());
} catch (const std::exception& error) {
  return absl::InvalidArgumentError(error.what());
}

}  // namespace fovea
