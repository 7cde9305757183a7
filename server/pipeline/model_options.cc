#include "server/pipeline/model_options.h"

namespace fovea {
namespace {

ResizeMode ToResizeMode(models::ResizeMode mode) {
  switch (mode) {
    case models::ResizeMode::kSquash:
      return ResizeMode::kSquash;
    case models::ResizeMode::kFit:
      return ResizeMode::kFit;
    case models::ResizeMode::kShortestEdge:
      break;
  }
  return ResizeMode::kShortestEdge;
}

}  // namespace

PreprocessSpec ImagingSpec(const models::ModelInfo& info,
                           const models::Preprocessing& preprocessing) {
  PreprocessSpec spec;
  spec.sizes.clear();
  for (const auto& [height, width] : info.sizes()) spec.sizes.push_back({height, width});
  spec.resize_mode = ToResizeMode(preprocessing.resize_mode);
  spec.shorter_side = preprocessing.shorter_side;
  spec.longer_side = preprocessing.longer_side;
  spec.interpolation = preprocessing.interpolation == models::Interpolation::kBilinear
                           ? Interpolation::kBilinear
                           : Interpolation::kBicubic;
  spec.crop_fraction = preprocessing.crop_fraction;
  spec.floor_crop_offset = preprocessing.crop_offset == models::CropOffset::kFloor;
  spec.fast_decode = preprocessing.fast_decode;
  return spec;
}

BatchExecutorOptions ExecutorOptions(const VersionToLoad& model, const LaneArrangement& arrangement,
                                     const ServedModel::Environment& environment) {
  const ModelSpec& spec = model.spec;
  return {.model = spec.description,
          .preprocessing =
              [&spec](const models::Preprocessing& published) {
                return spec.preprocessing.AppliedTo(published);
              },
          .max_batch_size = spec.max_batch_size,
          .arrangement = arrangement,
          .max_device_bytes = environment.max_device_bytes,
          .warm_up_turn = environment.warm_up_turn,
          .loads_together = model.loads_together,
          .on_progress = model.on_progress,
          .cancellation = model.cancellation,
          .give_up_at = environment.give_up_at,
          .on_device_lost = environment.on_gpu_lost};
}

absl::StatusOr<LaneArrangement> ArrangementOf(const VersionToLoad& model,
                                              const ServedModel::Environment& environment) {
  return ArrangeLanes(model.spec.instances, model.spec.description.precision,
                      environment.device_threads, NumbersOf(environment.gpus),
                      model.spec.max_batch_size);
}

absl::StatusOr<std::vector<std::unique_ptr<LaneDevice>>> DevicesOf(
    const LaneArrangement& arrangement, const ServedModel::Environment& environment) {
  const LaneDeviceOptions options{.threads = environment.device_threads,
                                  .gpus = environment.gpus,
                                  .available_memory = environment.available_memory};
  return environment.make_devices ? environment.make_devices(arrangement, options)
                                  : MakeLaneDevices(arrangement, options);
}

}  // namespace fovea
