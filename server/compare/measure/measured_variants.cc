#include "server/compare/measure/measured_variants.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/executor/intra_op_threads.h"

namespace fovea {

absl::Status TooLongToMeasure() {
  return DeadlineExceeded("compare.too_long",
                          absl::StrCat("the comparison has taken ", limits::kMaxComparisonSeconds,
                                       " s before it was measured"));
}

void MeasuredVariants::Add(std::unique_ptr<LoadedVariant> loaded, const PreparedImages& images) {
  variants_.push_back({.loaded = std::move(loaded), .images = &images});
}

absl::Status MeasuredVariants::AskOpinions(Nanos max_pass, Nanos end) {
  for (MeasuredVariant& variant : variants_) {
    for (size_t image = 0; image < variant.images->images.size(); ++image) {
      if (clock_.Now() >= end) return TooLongToMeasure();
      auto pass = variant.loaded->RunOn(lane_, variant.images->images[image], max_pass);
      if (absl::IsDeadlineExceeded(pass.status())) {
        return ResourceExhausted(
            "compare.too_slow",
            absl::StrCat("a pass of ", variant.loaded->view().name, " with ",
                         variant.loaded->view().attention, " takes longer than ",
                         max_pass / kMillisecond, " ms, for which models would wait"));
      }
      if (!pass.ok()) return pass.status();
      FOVEA_ASSIGN_OR_RETURN(Results results,
                             variant.loaded->Finish(*std::move(pass), /*every=*/true));
      variant.opinions.push_back(std::move(results));
    }
  }
  return absl::OkStatus();
}

absl::Status MeasuredVariants::RunRound() {
  const size_t this_round = rounds_.rounds();
  const auto image_of = [&](const MeasuredVariant& variant) -> const ResizedImage& {
    return variant.images->images[this_round % variant.images->images.size()];
  };
  std::vector<std::optional<double>> attention_ms(variants_.size());
  std::vector<bool> folds(variants_.size());
  const auto run = [&](const RoundPass& next) -> absl::StatusOr<double> {
    MeasuredVariant& variant = variants_[next.variant];
    FOVEA_ASSIGN_OR_RETURN(LoadedVariant::Pass pass, variant.loaded->Run(image_of(variant)));
    const double ms = pass.compute * 1e-6;
    variant.peak_bytes = std::max(variant.peak_bytes, pass.peak_bytes);
    folds[next.variant] = pass.folds_attention;
    if (next.timed && pass.attention) {
      std::optional<double>& mean = attention_ms[next.variant];
      mean = mean.value_or(0) + *pass.attention * 1e-6 / 2;  // as PairedRounds' of compute
    }
    IntraOpThreads::UseOne();  // as where results are made of what serves
    const Nanos computed = clock_.Now();
    FOVEA_RETURN_IF_ERROR(variant.loaded->Finish(std::move(pass), /*every=*/false).status());
    variant.postprocess_ms.push_back((clock_.Now() - computed) * 1e-6);
    return ms;
  };
  const auto run_all = [&](std::span<const RoundPass> passes,
                           size_t /*round*/) -> absl::StatusOr<std::vector<double>> {
    std::vector<double> ms;
    const auto step = [&]() -> absl::StatusOr<bool> {
      FOVEA_ASSIGN_OR_RETURN(const double took, run(passes[ms.size()]));
      ms.push_back(took);
      return ms.size() < passes.size();
    };
    FOVEA_RETURN_IF_ERROR(lane_.RunSteps(cancellation_, step));
    return ms;
  };
  FOVEA_RETURN_IF_ERROR(rounds_.Run(variants_.size(), run_all));
  std::vector<size_t> folded;
  for (size_t i = 0; i < folds.size(); ++i) {
    if (folds[i]) folded.push_back(i);
  }
  const auto run_apart = [&]() -> absl::StatusOr<bool> {
    const size_t i = folded.back();
    folded.pop_back();
    FOVEA_ASSIGN_OR_RETURN(const LoadedVariant::Pass apart,
                           variants_[i].loaded->Run(image_of(variants_[i]), kNever,
                                                    LoadedVariant::AttentionMode::kApart));
    if (apart.attention) attention_ms[i] = *apart.attention * 1e-6;
    return !folded.empty();
  };
  if (!folded.empty()) FOVEA_RETURN_IF_ERROR(lane_.RunSteps(cancellation_, run_apart));
  for (size_t i = 0; i < variants_.size(); ++i) {
    if (attention_ms[i]) variants_[i].attention_ms.push_back(*attention_ms[i]);
  }
  return absl::OkStatus();
}

}  // namespace fovea
