#include "server/compare/measure/comparer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/compare/agreement.h"
#include "server/compare/measure/loaded_variant.h"
#include "server/compare/measure/measured_variants.h"
#include "server/compare/measure/paired_times.h"
#include "server/compare/measure/prepared_images.h"
#include "server/compare/measure/provenance.h"
#include "server/compare/variant_source.h"

namespace fovea {
namespace {

constexpr Nanos kMaxTime = limits::kMaxComparisonSeconds * kSecond;
constexpr Nanos kBetweenLooks = 250 * kMillisecond;  // at the times so far

using Phase = ComparisonProgress::Phase;

absl::Status CheckRequest(const CompareRequest& request, int device_threads) {
  const auto within = [](std::string_view what, int64_t value, int64_t most) -> absl::Status {
    if (value >= 1 && value <= most) return absl::OkStatus();
    return InvalidArgument("compare.bad_request",
                           absl::StrCat(std::string(what), " is ", value, ", not 1 to ", most));
  };
  if (request.variants.size() < 2) {
    return InvalidArgument("compare.bad_request", "a comparison has two variants or more");
  }
  FOVEA_RETURN_IF_ERROR(within("the number of variants",
                               static_cast<int64_t>(request.variants.size()),
                               limits::kMaxComparedVariants));
  FOVEA_RETURN_IF_ERROR(within("the number of images", static_cast<int64_t>(request.images.size()),
                               limits::kMaxComparedImages));
  FOVEA_RETURN_IF_ERROR(within("rounds", request.rounds, limits::kMaxComparedRounds));
  FOVEA_RETURN_IF_ERROR(within("max_rounds", request.max_rounds, limits::kMaxComparedRounds));
  FOVEA_RETURN_IF_ERROR(within("batch_size", request.batch_size, limits::kMaxComparedBatch));
  return request.threads == 0 ? absl::OkStatus()
                              : within("threads", request.threads, device_threads);
}

// Mean over the images; none where tokens differ in number, or one of them has none.
std::optional<double> MeanCosine(const std::vector<std::vector<float>>& a,
                                 const std::vector<std::vector<float>>& b) {
  if (a.empty() || a.size() != b.size()) return std::nullopt;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].empty() || a[i].size() != b[i].size()) return std::nullopt;
    double dot = 0, aa = 0, bb = 0;
    for (size_t j = 0; j < a[i].size(); ++j) {
      dot += double{a[i][j]} * b[i][j];
      aa += double{a[i][j]} * a[i][j];
      bb += double{b[i][j]} * b[i][j];
    }
    if (aa == 0 || bb == 0) return std::nullopt;
    sum += dot / std::sqrt(aa * bb);
  }
  return sum / static_cast<double>(a.size());
}

ClassConfidence ConfidenceOf(const LoadedVariant& variant) {
  return variant.view().sigmoid ? ClassConfidence::kSigmoid : ClassConfidence::kSoftmax;
}

// One comparison, from its request to what came out.
class ComparisonRun {
 public:
  ComparisonRun(const CompareRequest& request, const ComparerOptions& options,
                const ModelCatalog& catalog, const ServedModel::Environment& environment,
                HeldLane& lane, CancellationPtr cancellation, const ProgressListener& progress)
      : request_(request),
        options_(options),
        catalog_(catalog),
        environment_(environment),
        lane_(lane),
        cancellation_(std::move(cancellation)),
        progress_(progress),
        end_(environment.clock.Now() + kMaxTime),
        images_(request.images, {.budget = environment.imaging.budget(),
                                 .clock = environment.clock,
                                 .cancellation = cancellation_}),
        variants_(lane, environment.clock, cancellation_) {}

  absl::StatusOr<Comparison> Run() {
    FOVEA_RETURN_IF_ERROR(FindModels());
    FOVEA_RETURN_IF_ERROR(Load());
    FOVEA_RETURN_IF_ERROR(variants_.AskOpinions(options_.max_pass, end_));
    FOVEA_RETURN_IF_ERROR(Measure());
    FOVEA_RETURN_IF_ERROR(Analyse());
    return std::move(comparison_);
  }

 private:
  void Report(Phase phase, size_t done, size_t total, std::vector<TimeSoFar> so_far = {}) {
    progress_({phase, static_cast<int>(done), static_cast<int>(total), std::move(so_far)});
  }
  bool PastTheEnd() const { return environment_.clock.Now() >= end_; }
  int threads() const {
    return request_.threads == 0 ? environment_.device_threads : request_.threads;
  }

  absl::Status FindModels() {
    for (const Variant& variant : request_.variants) {
      FOVEA_ASSIGN_OR_RETURN(SourceModel model, FindSource(catalog_, variant));
      models_.push_back(std::move(model));
      const ModelView& baseline = *models_.front().view;
      if (models_.back().view->task != baseline.task) {
        return InvalidArgument(
            "compare.other_task",
            absl::StrCat(variant.model_name, " does another task than ", baseline.name));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Load() {
    // Before any progress: an image that is none is refused as such.
    for (const auto& model : models_) FOVEA_RETURN_IF_ERROR(images_.Of(model).status());
    int64_t bytes = images_.bytes(), most_to_analyse = 0;
    // The last one is the control, which is gone before anything is loaded to be analysed.
    const size_t to_load = models_.size() + 1;
    for (size_t i = 0; i < to_load; ++i) {
      Report(Phase::kLoading, i, to_load);
      const bool is_control = i == models_.size();
      const SourceModel& model = models_[is_control ? 0 : i];
      FOVEA_ASSIGN_OR_RETURN(const PreparedImages* images, images_.Of(model));
      if (bytes + BytesToLoad(model) > options_.max_bytes) return TooLarge();
      const Nanos give_up_at = std::min(end_, environment_.clock.Now() + options_.max_load);
      auto loaded =
          LoadedVariant::Load(model,
                              {.attention = request_.variants[is_control ? 0 : i].attention,
                               .sizes = images->sizes(),
                               .batch_size = request_.batch_size,
                               .threads = threads(),
                               .max_bytes = options_.max_bytes - bytes,
                               .give_up_at = give_up_at},
                              environment_, cancellation_);
      if (ReasonOf(loaded.status()) == "model.load_stopped") {
        if (PastTheEnd()) return TooLongToMeasure();
        return ResourceExhausted(
            "compare.too_slow",
            absl::StrCat(model.view->name, " is not loaded and warmed up in ",
                         options_.max_load / kSecond, " s, for which other loads would wait"));
      }
      if (!loaded.ok()) return loaded.status();
      if (is_control) {
        if (bytes + (*loaded)->held_bytes() > options_.max_bytes) return TooLarge();
        control_ = *std::move(loaded);
        break;
      }
      bytes += (*loaded)->held_bytes();
      // To be analysed, each is loaded anew beside all of them.
      most_to_analyse = std::max(most_to_analyse, BytesToLoad(model));
      if (bytes + most_to_analyse > options_.max_bytes) return TooLarge();
      variants_.Add(*std::move(loaded), *images);
    }
    Report(Phase::kLoading, to_load, to_load);
    return absl::OkStatus();
  }

  absl::Status TooLarge() const {
    return ResourceExhausted(
        "compare.too_large",
        absl::StrCat("the variants hold more than the ", options_.max_bytes >> 20,
                     " MiB that experiments may hold (--experiment-memory)"));
  }

  // The rounds that were asked for, then twice as many and so on, until every verdict is there or a
  // bound is reached.
  absl::Status Measure() {
    const Nanos start = environment_.clock.Now();
    const Nanos end = std::min(start + std::min(request_.max_time, kMaxTime), end_);
    const auto past = [&] { return environment_.clock.Now() >= end; };
    const size_t least = request_.rounds, most = std::max(request_.rounds, request_.max_rounds);
    std::vector<TimeSoFar> so_far;
    Nanos next_look = 0;
    variants_.Add(std::move(control_), *variants_.all().front().images);
    ProvenanceWatch watch;
    const std::vector<size_t> looks = Looks(least, most);
    for (const size_t next : looks) {
      while (variants_.rounds() < next && (variants_.rounds() == 0 || !PastTheEnd()) &&
             (variants_.rounds() < least || !past())) {
        if (variants_.rounds() > 0 && environment_.clock.Now() >= next_look) {
          so_far = TimesSoFar(ComputeTimes());
          next_look = environment_.clock.Now() + kBetweenLooks;
        }
        Report(Phase::kMeasuring, variants_.rounds(), next, so_far);
        FOVEA_RETURN_IF_ERROR(variants_.RunRound());
      }
      times_ = CompareTimes(ComputeTimes(), variants_.compute_ms().back(), looks.size());
      if (times_.settled() || past()) break;
    }
    comparison_.measured = watch.Take(threads());
    variants_.DropLast();
    return absl::OkStatus();
  }

  // Without the control's.
  std::span<const RoundTimes> ComputeTimes() const {
    return std::span(variants_.compute_ms()).first(models_.size());
  }

  absl::Status Analyse() {
    const std::vector<MeasuredVariant>& all = variants_.all();
    std::vector<std::vector<float>> baseline_features;
    for (size_t i = 0; i < all.size(); ++i) {
      Report(Phase::kAnalysing, i, all.size());
      FOVEA_ASSIGN_OR_RETURN(LoadedVariant::Analysis analysis, AnalysisOf(all[i]));
      ComparedVariant& compared = comparison_.variants.emplace_back(Describe(i));
      compared.multiply_adds = analysis.multiply_adds;
      if (i == 0) {
        baseline_features = std::move(analysis.features);
        continue;
      }
      compared.agreement = Agree(
          all[i].opinions, all[0].opinions,
          {.results = ConfidenceOf(*all[i].loaded), .baseline = ConfidenceOf(*all[0].loaded)});
      // Between weights that were trained apart it is chance.
      if (HasTheBaselinesWeights(i)) {
        compared.feature_cosine = MeanCosine(analysis.features, baseline_features);
      }
    }
    Report(Phase::kAnalysing, all.size(), all.size());
    comparison_.id = request_.id;
    comparison_.control = times_.control;
    comparison_.rounds = static_cast<int>(variants_.rounds());
    comparison_.batch_size = request_.batch_size;
    comparison_.threads = threads();
    comparison_.device = all[0].loaded->view().device;
    comparison_.images = all[0].images->sources;
    return absl::OkStatus();
  }

  // Nothing where it fails or takes too long: what was measured is not lost with it.
  absl::StatusOr<LoadedVariant::Analysis> AnalysisOf(const MeasuredVariant& variant) {
    if (PastTheEnd()) return LoadedVariant::Analysis();
    auto analysis = variant.loaded->Analyse(variant.images->images, lane_, options_.max_pass);
    if (analysis.ok() || cancellation_->Cancelled()) return analysis;
    return LoadedVariant::Analysis();
  }

  bool HasTheBaselinesWeights(size_t i) const {
    const SourceModel& model = models_[i];
    const SourceModel& baseline = models_[0];
    const auto& file = model.version.weights_file;
    const auto& others = baseline.version.weights_file;
    return model.view == baseline.view || (file && others && file->identity == others->identity);
  }

  ComparedVariant Describe(size_t i) const {
    const MeasuredVariant& variant = variants_.all()[i];
    const ModelView& view = variant.loaded->view();
    ComparedVariant compared{
        .model_name = view.name,
        .model_version = view.version,
        .backbone = view.backbone,
        .attention = view.attention,
        .weights_of_attention = WeightsOfAttention(*models_[i].view, view.attention),
        .untrained = view.untrained,
        .compute = times_.variants[i],
        .postprocess_ms = QuartilesOf(variant.postprocess_ms),
        .decode_ms = QuartilesOf(variant.images->decode_ms),
        .preprocess_ms = QuartilesOf(variant.images->preprocess_ms),
        .peak_bytes = variant.peak_bytes,
        .weight_bytes = variant.loaded->weight_bytes(),
        .parameters = variant.loaded->info().parameters};
    if (!variant.attention_ms.empty()) {
      compared.attention_left_out = !CanBePart(variant.attention_ms, variants_.compute_ms()[i]);
      if (!compared.attention_left_out) compared.attention_ms = QuartilesOf(variant.attention_ms);
    }
    for (const Results& opinion : variant.opinions) compared.answers.push_back(Brief(opinion));
    compared.images_per_second = request_.batch_size * 1e3 / compared.compute.ms.median;
    return compared;
  }

  const CompareRequest& request_;
  const ComparerOptions& options_;
  const ModelCatalog& catalog_;
  const ServedModel::Environment& environment_;
  HeldLane& lane_;
  const CancellationPtr cancellation_;
  const ProgressListener& progress_;
  const Nanos end_;

  std::vector<SourceModel> models_;  // of each variant
  PreparedImagesByModel images_;
  std::unique_ptr<LoadedVariant> control_;  // null once it is measured
  MeasuredVariants variants_;
  PairedTimes times_;
  Comparison comparison_;
};

}  // namespace

void Comparer::Compare(CompareRequest request, CancellationPtr cancellation,
                       ProgressListener progress, Done done) {
  if (absl::Status checked = CheckRequest(request, environment_.device_threads); !checked.ok()) {
    return done(std::move(checked));
  }
  int64_t bytes = 0;
  for (const std::string& image : request.images) bytes += static_cast<int64_t>(image.size());
  line_.AddFor<Comparison>(
      cancellation, bytes, [progress] { progress({.phase = Phase::kWaiting}); },
      [this, request = std::move(request), cancellation, progress] {
        return ComparisonRun(request, options_, catalog_, environment_, lane_, cancellation,
                             progress)
            .Run();
      },
      std::move(done));
}

}  // namespace fovea
