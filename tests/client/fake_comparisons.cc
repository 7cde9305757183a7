#include "tests/client/fake_comparisons.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "tests/client/fake_models.h"

namespace fovea::client {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

namespace {

Status WaitForTheCallerToGo(ServerContext* context) {
  while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return {StatusCode::CANCELLED, "cancelled"};
}

void FillRatio(double ratio, fovea::v1::ComparedTime* time) {
  time->mutable_ratio()->set_value(ratio);
  time->mutable_ratio()->set_lower(ratio - 0.01);
  time->mutable_ratio()->set_upper(ratio + 0.01);
  time->mutable_difference_ms()->set_value(ratio - 1);
  time->set_verdict(ratio < 1   ? fovea::v1::FASTER
                    : ratio > 1 ? fovea::v1::SLOWER
                                : fovea::v1::EQUIVALENT);
}

}  // namespace

Status FakeComparisons::Compare(ServerContext* context, const fovea::v1::CompareRequest* request,
                                grpc::ServerWriter<fovea::v1::CompareResponse>* writer) {
  {
    std::lock_guard lock(mutex_);
    compared_.push_back(*request);
  }
  for (const auto& variant : request->variants()) {
    if (Find(models_, variant.model_name()) == nullptr) return NoSuchModel(variant.model_name());
  }
  for (const std::string& image : request->images()) {
    if (!absl::StartsWith(image, "bad")) continue;
    context->AddTrailingMetadata("fovea-reason", "image.unknown_format");
    return {StatusCode::INVALID_ARGUMENT, "image 1: is no JPEG, PNG or WebP file"};
  }
  fovea::v1::CompareResponse progress;
  progress.mutable_progress()->set_phase(fovea::v1::ComparisonProgress::MEASURING);
  progress.mutable_progress()->set_done(7);
  progress.mutable_progress()->set_total(request->rounds());
  for (int i = 0; i < request->variants_size(); ++i) {
    fovea::v1::TimeSoFar& time = *progress.mutable_progress()->add_so_far();
    time.mutable_compute_ms()->set_median(2 + i);
    time.set_ratio(1 + 0.25 * i);
  }
  writer->Write(progress);
  if (request->images_size() > 0 && absl::StartsWith(request->images(0), "slow")) {
    return WaitForTheCallerToGo(context);
  }
  fovea::v1::CompareResponse last;
  Fill(*request, last.mutable_comparison());
  writer->Write(last);
  return Status::OK;
}

Status FakeComparisons::Sweep(ServerContext* context, const fovea::v1::SweepRequest* request,
                              grpc::ServerWriter<fovea::v1::SweepResponse>* writer) {
  {
    std::lock_guard lock(mutex_);
    swept_.push_back(*request);
  }
  for (const auto& variant : request->variants()) {
    if (Find(models_, variant.model_name()) == nullptr) return NoSuchModel(variant.model_name());
  }
  fovea::v1::SweepResponse progress;
  progress.mutable_progress()->set_phase(fovea::v1::ComparisonProgress::MEASURING);
  progress.mutable_progress()->set_done(7);
  progress.mutable_progress()->set_total(request->rounds());
  writer->Write(progress);
  if (absl::StartsWith(request->image(), "slow")) return WaitForTheCallerToGo(context);
  fovea::v1::SweepResponse last;
  Fill(*request, last.mutable_sweep());
  writer->Write(last);
  return Status::OK;
}

std::vector<fovea::v1::CompareRequest> FakeComparisons::compared() const {
  std::lock_guard lock(mutex_);
  return compared_;
}

std::vector<fovea::v1::SweepRequest> FakeComparisons::swept() const {
  std::lock_guard lock(mutex_);
  return swept_;
}

void FakeComparisons::Fill(const fovea::v1::SweepRequest& request, fovea::v1::Sweep* sweep) const {
  sweep->set_over(request.over());
  sweep->set_rounds(request.rounds());
  sweep->set_batch_size(std::max(1, request.batch_size()));
  sweep->set_threads(2);
  sweep->set_device("CPU");
  const bool numbers = request.over() != fovea::v1::SweepRequest::PRECISION;
  for (int i = 0; i < request.values_size(); ++i) {
    sweep->add_values(request.values(i));
    if (numbers) sweep->add_places(1 << i);
  }
  for (const auto& variant : request.variants()) {
    const FakeModel& model = *Find(models_, variant.model_name());
    auto& curve = *sweep->add_curves();
    curve.set_model_name(model.name);
    curve.set_model_version(model.version);
    curve.set_backbone("vit_demo_patch8_64");
    curve.set_attention(variant.attention().empty() ? model.attention : variant.attention());
    if (curve.attention() != model.attention) curve.set_weights_of_attention(model.attention);
    int measured = 0;
    for (int i = 0; i < request.values_size(); ++i) {
      auto& point = *curve.add_points();
      if (request.values(i) == "13") {
        point.set_failure("it cannot be built");
        continue;
      }
      ++measured;
      const double ms = static_cast<double>(model.compute_ns) * 1e-6 * (1 << i);
      point.set_attention(curve.attention());
      point.mutable_compute_ms()->set_lower(ms * 0.75);
      point.mutable_compute_ms()->set_median(ms);
      point.mutable_compute_ms()->set_upper(ms * 1.5);
      point.mutable_attention_ms()->set_median(ms / 4);
      point.set_images_per_second(1000 / ms);
      point.set_peak_bytes(model.peak_bytes << i);
      point.set_weight_bytes(22 << 20);
      point.set_multiply_adds(2'000'000'000);
    }
    if (measured == 0) sweep->set_rounds(0);
    if (measured < 3 || !numbers) continue;
    for (auto* fitted : {curve.mutable_compute_exponent(), curve.mutable_attention_exponent(),
                         curve.mutable_peak_exponent()}) {
      fitted->mutable_exponent()->set_value(1);
      fitted->mutable_exponent()->set_lower(0.98);
      fitted->mutable_exponent()->set_upper(1.03);
      fitted->set_points(measured);
      fitted->set_worst_ratio(1.0625);
    }
    for (auto set : {&fovea::v1::Estimate::set_lower, &fovea::v1::Estimate::set_upper}) {
      (curve.mutable_peak_exponent()->mutable_exponent()->*set)(1);
    }
  }
}

void FakeComparisons::Fill(const fovea::v1::CompareRequest& request,
                           fovea::v1::Comparison* comparison) const {
  const FakeModel& baseline = *Find(models_, request.variants(0).model_name());
  for (const auto& asked : request.variants()) {
    const FakeModel& model = *Find(models_, asked.model_name());
    auto& variant = *comparison->add_variants();
    variant.set_model_name(model.name);
    variant.set_model_version(model.version);
    variant.set_backbone("vit_demo_patch8_64");
    variant.set_attention(asked.attention().empty() ? model.attention : asked.attention());
    if (variant.attention() != model.attention) {
      variant.set_weights_of_attention(model.attention);
    }
    variant.set_untrained(model.untrained);
    const double ms = static_cast<double>(model.compute_ns) * 1e-6;
    variant.mutable_compute()->mutable_ms()->set_lower(ms - 0.1);
    variant.mutable_compute()->mutable_ms()->set_median(ms);
    variant.mutable_compute()->mutable_ms()->set_upper(ms + 0.2);
    variant.mutable_attention_ms()->set_median(ms / 4);
    variant.mutable_postprocess_ms()->set_median(0.02);
    variant.mutable_decode_ms()->set_median(0.4);
    variant.mutable_preprocess_ms()->set_median(0.3);
    variant.set_images_per_second(1000 / ms);
    variant.set_peak_bytes(model.peak_bytes);
    variant.set_weight_bytes(22 << 20);
    variant.set_parameters(1000);
    variant.set_multiply_adds(2'000'000'000);
    for (int i = 0; i < request.images_size(); ++i) {
      auto& answer = *variant.add_answers();
      answer.set_label(model.classes[0].label);
      answer.set_confidence(model.classes[0].confidence);
    }
    if (comparison->variants_size() == 1) continue;
    FillRatio(model.doubt ? 1.5
                          : static_cast<double>(model.compute_ns) /
                                static_cast<double>(baseline.compute_ns),
              variant.mutable_compute());
    if (model.doubt) variant.mutable_compute()->set_verdict(fovea::v1::WIDE);
    auto& classes = *variant.mutable_classes();
    classes.set_images(request.images_size());
    const bool same = model.classes[0].label == baseline.classes[0].label;
    classes.set_same_top1(same ? request.images_size() : 0);
    classes.set_top5_overlap(1);
    classes.set_kl_divergence(0.125);
    classes.set_max_confidence_difference(0.3);
    variant.set_feature_cosine(0.875);
  }
  FillRatio(1, comparison->mutable_control());
  comparison->mutable_control()->mutable_ms()->set_median(static_cast<double>(baseline.compute_ns) *
                                                          1e-6);
  comparison->set_rounds(request.rounds());
  comparison->set_batch_size(std::max(1, request.batch_size()));
  comparison->set_threads(2);
  comparison->set_device("CPU");
  for (int i = 0; i < request.images_size(); ++i) comparison->add_images()->set_height(48);
}

}  // namespace fovea::client
