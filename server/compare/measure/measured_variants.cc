#include "server/compare/measure/measured_variants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"

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

absl::Status MeasuredVariants::RunRound(bool control) {
  std::vector<double> ms(variants_.size() + (control ? 1 : 0));
  for (const size_t next : RoundOrder(ms.size(), random_)) {
    MeasuredVariant& variant = variants_[next == variants_.size() ? 0 : next];
    const auto& images = variant.images->images;
    FOVEA_ASSIGN_OR_RETURN(LoadedVariant::Pass pass,
                           variant.loaded->RunOn(lane_, images[rounds_ % images.size()]));
    ms[next] += pass.compute * 1e-6 / 2;
    variant.peak_bytes = std::max(variant.peak_bytes, pass.peak_bytes);
    const Nanos computed = clock_.Now();
    FOVEA_RETURN_IF_ERROR(variant.loaded->Finish(std::move(pass), /*every=*/false).status());
    variant.postprocess_ms.push_back((clock_.Now() - computed) * 1e-6);
  }
  for (size_t i = 0; i < variants_.size(); ++i) variants_[i].compute_ms.push_back(ms[i]);
  if (control) control_ms_.push_back(ms.back());
  ++rounds_;
  return absl::OkStatus();
}

absl::Status MeasuredVariants::TimeAttention(int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    for (MeasuredVariant& variant : variants_) {
      const auto& images = variant.images->images;
      absl::StatusOr<std::optional<Nanos>> attention = std::nullopt;
      FOVEA_RETURN_IF_ERROR(lane_.Run(cancellation_, [&] {
        attention =
            variant.loaded->AttentionTime(images[static_cast<size_t>(pass) % images.size()]);
      }));
      FOVEA_RETURN_IF_ERROR(attention.status());
      if (*attention) variant.attention_ms.push_back(**attention * 1e-6);
    }
  }
  return absl::OkStatus();
}

}  // namespace fovea
