#include "server/compare/live/experiment_plan.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

// Against another arm's: more says nothing, and the sum of all stays a number.
constexpr double kMaxWeight = 1e6;

absl::Status BadPlan(std::string_view what) { return InvalidArgument("experiment.bad_plan", what); }

absl::Status CheckName(std::string_view name) {
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
  if (is_name && name.size() <= limits::kMaxExperimentNameBytes) return absl::OkStatus();
  return BadPlan(absl::StrCat("an experiment's name has 1 to ", limits::kMaxExperimentNameBytes,
                              " letters, digits, '_', '-' and '.'"));
}

// Also where it is no number.
absl::Status Within(std::string_view what, double value, bool is_within, std::string_view range) {
  if (is_within) return absl::OkStatus();
  return BadPlan(
      absl::StrCat(std::string(what), " is ", value, ", which is not ", std::string(range)));
}

absl::Status CheckArm(const ExperimentArm& arm, bool is_baseline) {
  FOVEA_RETURN_IF_ERROR(
      Within("a weight", arm.weight, arm.weight >= 0 && arm.weight <= kMaxWeight, "0 to 1000000"));
  if (is_baseline && arm.shadow) return BadPlan("the baseline gets no copies of its own requests");
  if (is_baseline && arm.weight == 0) {
    return BadPlan("the baseline has no weight: there is nothing to test the others against");
  }
  if (arm.weight == 0 && !arm.shadow) {
    return BadPlan("an arm has neither a weight nor copies: it would get nothing");
  }
  return absl::OkStatus();
}

bool SameTensors(const std::vector<TensorDescription>& a, const std::vector<TensorDescription>& b) {
  return std::ranges::equal(a, b, [](const TensorDescription& one, const TensorDescription& other) {
    return one.name == other.name && one.type == other.type && one.shape == other.shape;
  });
}

// A size whose largest batch has no room is refused to callers.
bool Fits(const ModelView& model, size_t size) {
  return size >= model.device_bytes.size() || model.device_bytes[size] <= model.max_device_bytes;
}

}  // namespace

absl::Status CheckPlan(const ExperimentPlan& plan) {
  FOVEA_RETURN_IF_ERROR(CheckName(plan.name));
  if (plan.model_name.empty()) return BadPlan("the plan names no model");
  if (plan.arms.size() < 2 || plan.arms.size() > limits::kMaxExperimentArms) {
    return BadPlan(absl::StrCat("an experiment has 2 to ", limits::kMaxExperimentArms,
                                " arms, not ", plan.arms.size()));
  }
  for (const ExperimentArm& arm : plan.arms) {
    FOVEA_RETURN_IF_ERROR(CheckArm(arm, /*is_baseline=*/&arm == &plan.arms.front()));
  }
  const Variant& baseline = plan.arms.front().variant;
  if (baseline.model_name != plan.model_name || !baseline.model_version.empty()) {
    return BadPlan(
        "the first arm, the baseline, is the model whose traffic it is, and names no "
        "version: what callers get without an experiment");
  }
  const GuardRails& rails = plan.guard_rails;
  const auto share = [](double value) { return value > 0 && value < 1; };
  FOVEA_RETURN_IF_ERROR(
      Within("max_latency_ratio", rails.max_latency_ratio,
             rails.max_latency_ratio >= 1 && std::isfinite(rails.max_latency_ratio), "1 or more"));
  FOVEA_RETURN_IF_ERROR(Within("max_disagreement", rails.max_disagreement,
                               rails.max_disagreement == 0 || share(rails.max_disagreement),
                               "0 or a share below 1"));
  FOVEA_RETURN_IF_ERROR(Within("max_error_excess", rails.max_error_excess,
                               share(rails.max_error_excess), "a share above 0 and below 1"));
  if (rails.max_time < kSecond) return BadPlan("max_seconds is less than 1");
  // Not how many: of those that do not fit in Nanos less is left.
  if (rails.max_time > limits::kMaxExperimentSeconds * kSecond) {
    return BadPlan(
        absl::StrCat("max_seconds is more than ", limits::kMaxExperimentSeconds, " (30 days)"));
  }
  FOVEA_RETURN_IF_ERROR(Within("max_shadow_share", rails.max_shadow_share,
                               rails.max_shadow_share > 0 && rails.max_shadow_share <= 0.5,
                               "a share above 0 and up to 0.5"));
  FOVEA_RETURN_IF_ERROR(Within("error_probability", plan.error_probability,
                               plan.error_probability > 0 && plan.error_probability <= 0.5,
                               "above 0 and up to 0.5"));
  FOVEA_RETURN_IF_ERROR(Within("latency_margin", plan.latency_margin, share(plan.latency_margin),
                               "above 0 and below 1"));
  return Within("disagreement_margin", plan.disagreement_margin, share(plan.disagreement_margin),
                "above 0 and below 1");
}

absl::Status CheckSameKind(const ModelView& arm, const ModelView& baseline) {
  std::string_view what;
  if (arm.task != baseline.task) {
    what = "does another task";
  } else if (arm.num_classes != baseline.num_classes || *arm.labels != *baseline.labels) {
    what = "has other classes";
  } else if (!SameTensors(arm.accepted_inputs, baseline.accepted_inputs) ||
             arm.fits_pictures != baseline.fits_pictures || arm.sizes != baseline.sizes) {
    what = "takes other inputs";
  } else if (arm.max_batch_size < baseline.max_batch_size) {
    what = "takes fewer images at a time";
  } else if (!SameTensors(arm.outputs, baseline.outputs)) {
    what = "has other outputs";
  }
  if (what.empty()) {
    for (size_t i = 0; i < baseline.sizes.size(); ++i) {
      if (!Fits(baseline, i) || Fits(arm, i)) continue;
      return ResourceExhausted(
          "serve.too_large",
          absl::StrCat(arm.name, " has no memory for batches of ", baseline.sizes[i].height, "x",
                       baseline.sizes[i].width, ", which ", baseline.name,
                       ", the baseline, runs (--experiment-memory, --max-device-bytes)"));
    }
    return absl::OkStatus();
  }
  return InvalidArgument(
      "experiment.other_kind",
      absl::StrCat(arm.name, " ", std::string(what), " than ", baseline.name, ", the baseline"));
}

std::string ArmName(const Variant& variant, const ModelView& model) {
  return absl::StrCat(variant.model_name, variant.model_version.empty() ? "" : "/",
                      variant.model_version, ":", model.attention);
}

}  // namespace fovea
