#include "server/compare/measure/sweeper.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/statistics.h"
#include "base/status.h"
#include "server/compare/measure/loaded_variant.h"
#include "server/compare/measure/measured_variants.h"
#include "server/compare/measure/power_law.h"
#include "server/compare/measure/prepared_images.h"
#include "server/compare/measure/provenance.h"
#include "server/compare/measure/swept_value.h"
#include "server/compare/variant_source.h"
#include "server/imaging/encode_png.h"

namespace fovea {
namespace {

constexpr int kNoiseSide = 256;  // pixels

using Phase = ComparisonProgress::Phase;

absl::Status CheckRequest(const SweepRequest& request, int device_threads) {
  const auto within = [](const char* what, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return absl::OkStatus();
    return InvalidArgument("sweep.bad_request",
                           absl::StrCat(what, " is ", value, ", not ", least, " to ", most));
  };
  const auto curves = static_cast<int64_t>(request.variants.size());
  const auto values = static_cast<int64_t>(request.values.size());
  FOVEA_RETURN_IF_ERROR(within("the number of variants", curves, 1, limits::kMaxComparedVariants));
  FOVEA_RETURN_IF_ERROR(within("the number of values", values, 1, limits::kMaxSweptValues));
  FOVEA_RETURN_IF_ERROR(within("the number of points, values of each variant", curves * values, 1,
                               limits::kMaxSweptPoints));
  FOVEA_RETURN_IF_ERROR(within("rounds", request.rounds, 1, limits::kMaxSweptRounds));
  FOVEA_RETURN_IF_ERROR(within("batch_size", request.batch_size, 1, limits::kMaxComparedBatch));
  return within("threads", request.threads, 0, device_threads);
}

// A picture that costs what any does, where a caller gives none.
absl::StatusOr<std::string> Noise() {
  RgbImage image = RgbImage::Allocate(kNoiseSide, kNoiseSide);
  std::mt19937 random(1);
  std::generate_n(image.pixels.get(), image.size(), [&] { return static_cast<uint8_t>(random()); });
  return EncodePng(image);
}

// Never empty: a failure that is empty is none.
std::string WhyOf(const absl::Status& status) {
  return std::string(status.message().empty() ? absl::StatusCodeToString(status.code())
                                              : status.message());
}

std::optional<FittedExponent> Fit(const std::vector<MeasuredPoint>& points,
                                  Measured how = Measured::kWithNoise) {
  const std::optional<PowerLaw> law = FitPowerLaw(points, how);
  if (!law) return std::nullopt;
  return FittedExponent{
      .exponent = {.value = law->exponent, .lower = law->lower, .upper = law->upper},
      .points = static_cast<int>(points.size()),
      .worst_ratio = law->worst_ratio};
}

// One sweep, from its request to what came out.
class SweepRun {
 public:
  SweepRun(const SweepRequest& request, const SweeperOptions& options, const ModelCatalog& catalog,
           const ServedModel::Environment& environment, HeldLane& lane,
           CancellationPtr cancellation, const ProgressListener& progress)
      : request_(request),
        options_(options),
        catalog_(catalog),
        environment_(environment),
        lane_(lane),
        cancellation_(std::move(cancellation)),
        progress_(progress),
        end_(environment.clock.Now() + options.max_time),
        imaging_{.budget = environment.imaging.budget(),
                 .clock = environment.clock,
                 .cancellation = cancellation_},
        images_(picture_, imaging_),
        variants_(lane, environment.clock, cancellation_) {}

  absl::StatusOr<Sweep> Run() {
    FOVEA_RETURN_IF_ERROR(ReadRequest());
    FOVEA_RETURN_IF_ERROR(FindModels());
    FOVEA_RETURN_IF_ERROR(Load());
    FOVEA_RETURN_IF_ERROR(Measure());
    FOVEA_RETURN_IF_ERROR(Analyse());
    return std::move(sweep_);
  }

 private:
  // Whose the variant of `variants_` at the same place is.
  struct PointIndex {
    size_t curve, value;
  };

  bool PastTheEnd() const { return environment_.clock.Now() >= end_; }
  void Report(Phase phase, size_t done, size_t total) {
    progress_({phase, static_cast<int>(done), static_cast<int>(total)});
  }
  SweptPoint& PointAt(const PointIndex& place) {
    return sweep_.curves[place.curve].points[place.value];
  }

  absl::Status ReadRequest() {
    FOVEA_ASSIGN_OR_RETURN(values_, ReadSweptValues(request_, environment_.device_threads));
    picture_ = {request_.image};
    if (request_.image.empty()) {
      FOVEA_ASSIGN_OR_RETURN(picture_[0], Noise());
    }
    sweep_.id = request_.id;
    sweep_.axis = request_.axis;
    sweep_.values = request_.values;
    for (const SweptValue& value : values_) {
      if (value.place) sweep_.places.push_back(*value.place);
    }
    sweep_.batch_size = request_.batch_size;
    sweep_.threads = request_.threads == 0 ? environment_.device_threads : request_.threads;
    return absl::OkStatus();
  }

  absl::Status FindModels() {
    for (const Variant& variant : request_.variants) {
      FOVEA_ASSIGN_OR_RETURN(SourceModel found, FindSource(catalog_, variant));
      const SourceModel& model = models_.emplace_back(std::move(found));
      // What would fail at each point is the sweep's failure.
      FOVEA_RETURN_IF_ERROR(OpenVariantSource(model, "", cancellation_).status());
      FOVEA_RETURN_IF_ERROR(images_.Of(model).status());
      const ModelView& view = *model.view;
      SweptCurve& curve = sweep_.curves.emplace_back();
      curve.model_name = view.name;
      curve.model_version = view.version;
      curve.backbone = view.backbone;
      curve.untrained = view.untrained;
      curve.points.resize(values_.size());
      curve.attention = variant.attention;
      for (const SweptValue& value : values_) {
        FOVEA_ASSIGN_OR_RETURN(
            const std::string attention,
            AttentionAt(request_.axis, variant.attention, view.attention, value.text));
        attentions_.push_back(attention);
      }
      if (!curve.attention.empty()) continue;
      curve.attention = request_.axis == SweepAxis::kK ? "knn" : view.attention;
    }
    return absl::OkStatus();
  }

  absl::Status Load() {
    const size_t points = models_.size() * values_.size();
    size_t done = 0;
    for (size_t value = 0; value < values_.size(); ++value) {
      for (size_t curve = 0; curve < models_.size(); ++curve) {
        Report(Phase::kLoading, done++, points);
        const absl::Status loaded = LoadPoint({curve, value});
        if (cancellation_->Cancelled()) return loaded;  // whatever it says: the line knows why
        if (!loaded.ok()) PointAt({curve, value}).failure = WhyOf(loaded);
      }
    }
    Report(Phase::kLoading, points, points);
    return absl::OkStatus();
  }

  // An error is the point's: the others go on.
  absl::Status LoadPoint(const PointIndex& place) {
    const SourceModel& model = models_[place.curve];
    const SweptValue& value = values_[place.value];
    Clock& clock = environment_.clock;
    if (PastTheEnd()) {
      return Unavailable("sweep.too_long",
                         absl::StrCat("the sweep has taken ", options_.max_time / kSecond,
                                      " s before it was loaded"));
    }
    if (value.size &&
        request_.batch_size * value.size->height * value.size->width > limits::kMaxSweptPixels) {
      return ResourceExhausted("sweep.too_large", absl::StrCat("a batch of it has more than ",
                                                               limits::kMaxSweptPixels, " pixels"));
    }
    if (held_ + BytesToLoad(model) > options_.max_bytes) return TooLarge();
    LoadedVariantOptions options{
        .attention = attentions_[place.curve * values_.size() + place.value],
        .size = value.size,
        .precision = value.precision,
        .batch_size = value.batch_size,
        .threads = value.threads,
        .max_bytes = options_.max_bytes - held_,
        .give_up_at = clock.Now() + options_.max_load};
    FOVEA_ASSIGN_OR_RETURN(const PreparedImages* images, images_.Of(model));
    options.sizes = value.size ? std::vector<size_t>{0} : images->sizes();
    auto loaded = LoadedVariant::Load(model, options, environment_, cancellation_);
    if (ReasonOf(loaded.status()) == "model.load_stopped") {
      return Unavailable("sweep.too_long", absl::StrCat("it is not loaded and warmed up within ",
                                                        options_.max_load / kSecond, " s"));
    }
    if (!loaded.ok()) return loaded.status();
    FOVEA_RETURN_IF_ERROR(CheckDevice(**loaded));
    std::unique_ptr<PreparedImages> own;
    if (value.size) {
      FOVEA_ASSIGN_OR_RETURN(
          PreparedImages prepared,
          PreparedImages::Prepare(picture_, *model.view, (*loaded)->imaging_spec(), imaging_));
      own = std::make_unique<PreparedImages>(std::move(prepared));
      images = own.get();
    }
    const int64_t holds = (*loaded)->held_bytes() + (own ? own->bytes() : 0);
    if (held_ + holds > options_.max_bytes) return TooLarge();
    FOVEA_RETURN_IF_ERROR(TryOnce(**loaded, images->images[0]));
    held_ += holds;
    if (own) own_images_.push_back(std::move(own));
    variants_.Add(*std::move(loaded), *images);
    measured_.push_back(place);
    return absl::OkStatus();
  }

  // INT8 runs on the CPU where other precisions run on a GPU: as a curve they would say nothing.
  absl::Status CheckDevice(const LoadedVariant& variant) const {
    if (measured_.empty()) return absl::OkStatus();
    const std::string &device = variant.view().device,
                      &first = variants_.all()[0].loaded->view().device;
    if (device == first) return absl::OkStatus();
    return FailedPrecondition(
        "sweep.other_device",
        absl::StrCat("it runs on ", device, " and those before it on ", first));
  }

  // One pass, which tells whether models can wait for more of them. It warms the point up, too.
  absl::Status TryOnce(LoadedVariant& variant, const ResizedImage& image) {
    const absl::Status tried = variant.RunOn(lane_, image, options_.max_pass).status();
    if (!absl::IsDeadlineExceeded(tried)) return tried;
    return ResourceExhausted("sweep.too_slow", absl::StrCat("a pass of it takes longer than ",
                                                            options_.max_pass / kMillisecond,
                                                            " ms, for which models would wait"));
  }

  absl::Status TooLarge() const {
    return ResourceExhausted("sweep.too_large",
                             absl::StrCat("it does not fit beside the points before it in the ",
                                          options_.max_bytes >> 20,
                                          " MiB that experiments may hold (--experiment-memory)"));
  }

  // Every round has each point twice, in random order: what slows the machine down for a while
  // slows all points alike, and looks like no curve.
  absl::Status Measure() {
    if (measured_.empty()) return absl::OkStatus();
    ProvenanceWatch watch;
    const auto past = [&, end = std::min(end_, environment_.clock.Now() + request_.max_time)] {
      return environment_.clock.Now() >= end;
    };
    const auto most = static_cast<size_t>(request_.rounds);
    while (variants_.rounds() < most && (variants_.rounds() == 0 || !past())) {
      Report(Phase::kMeasuring, variants_.rounds(), most);
      FOVEA_RETURN_IF_ERROR(variants_.RunRound());
    }
    Report(Phase::kMeasuring, variants_.rounds(), variants_.rounds());
    sweep_.rounds = static_cast<int>(variants_.rounds());
    sweep_.measured = watch.Take(sweep_.threads);
    return absl::OkStatus();
  }

  absl::Status Analyse() {
    for (size_t i = 0; i < measured_.size(); ++i) {
      Report(Phase::kAnalysing, i, measured_.size());
      FOVEA_RETURN_IF_ERROR(Describe(i));
    }
    Report(Phase::kAnalysing, measured_.size(), measured_.size());
    if (!measured_.empty()) sweep_.device = variants_.all()[0].loaded->view().device;
    if (!HasExponent(request_.axis)) return absl::OkStatus();
    for (size_t curve = 0; curve < sweep_.curves.size(); ++curve) FitCurve(curve);
    return absl::OkStatus();
  }

  absl::Status Describe(size_t i) {
    const MeasuredVariant& variant = variants_.all()[i];
    const PointIndex& place = measured_[i];
    SweptCurve& curve = sweep_.curves[place.curve];
    SweptPoint& point = PointAt(place);
    point.attention = variant.loaded->view().attention;
    point.compute_ms = QuartilesOf(variants_.compute_ms()[i]);
    point.compute_estimate_ms = EstimateMedian(variants_.compute_ms()[i]);
    if (!variant.attention_ms.empty()) {
      point.attention_left_out = !CanBePart(variant.attention_ms, variants_.compute_ms()[i]);
      if (!point.attention_left_out) point.attention_ms = QuartilesOf(variant.attention_ms);
    }
    point.images_per_second = values_[place.value].batch_size * 1e3 / point.compute_ms.median;
    point.peak_bytes = variant.peak_bytes;
    point.weight_bytes = variant.loaded->weight_bytes();
    const std::string others = WeightsOfAttention(*models_[place.curve].view, point.attention);
    if (!others.empty()) curve.weights_of_attention = others;
    FOVEA_ASSIGN_OR_RETURN(point.multiply_adds, MultiplyAddsOf(i));
    return absl::OkStatus();
  }

  // Of a size or a number of heads they are its own; all other values of a curve share them.
  absl::StatusOr<int64_t> MultiplyAddsOf(size_t i) {
    const PointIndex& place = measured_[i];
    const bool its_own =
        request_.axis == SweepAxis::kResolution || request_.axis == SweepAxis::kHeads;
    const auto known = multiply_adds_.find(place.curve);
    if (!its_own && known != multiply_adds_.end()) return known->second;
    // To be counted, a point is loaded anew beside all of them.
    const bool fits = held_ + BytesToLoad(models_[place.curve]) <= options_.max_bytes;
    if (PastTheEnd() || !fits) return int64_t{0};
    const MeasuredVariant& variant = variants_.all()[i];
    const auto analysis =
        variant.loaded->Analyse({variant.images->images[0]}, lane_, options_.max_pass);
    // What was measured is not lost with it.
    if (!analysis.ok() && cancellation_->Cancelled()) return analysis.status();
    const int64_t counted = analysis.ok() ? analysis->multiply_adds : 0;
    multiply_adds_[place.curve] = counted;
    return counted;
  }

  void FitCurve(size_t curve) {
    std::vector<MeasuredPoint> compute, attention, peak;
    for (size_t i = 0; i < measured_.size(); ++i) {
      if (measured_[i].curve != curve) continue;
      const MeasuredVariant& variant = variants_.all()[i];
      const double x = *values_[measured_[i].value].place;
      compute.push_back({x, variants_.compute_ms()[i]});
      if (PointAt(measured_[i]).attention_ms) attention.push_back({x, variant.attention_ms});
      peak.push_back({x, {static_cast<double>(variant.peak_bytes)}});
    }
    sweep_.curves[curve].compute_exponent = Fit(compute);
    sweep_.curves[curve].attention_exponent = Fit(attention);
    sweep_.curves[curve].peak_exponent = Fit(peak, Measured::kExactly);
  }

  const SweepRequest& request_;
  const SweeperOptions& options_;
  const ModelCatalog& catalog_;
  const ServedModel::Environment& environment_;
  HeldLane& lane_;
  const CancellationPtr cancellation_;
  const ProgressListener& progress_;
  const Nanos end_;

  std::vector<SweptValue> values_;
  std::vector<std::string> picture_;     // one
  std::vector<SourceModel> models_;      // of each curve
  std::vector<std::string> attentions_;  // of each curve, one behind the other, of each value
  const ImagingResources imaging_;
  PreparedImagesByModel images_;                             // as they are served
  std::vector<std::unique_ptr<PreparedImages>> own_images_;  // of points at a size of their own
  int64_t held_ = 0;                                         // by the points so far
  MeasuredVariants variants_;                                // those that could be loaded
  std::vector<PointIndex> measured_;                         // of each of them
  std::map<size_t, int64_t> multiply_adds_;                  // of a curve's last that was counted
  Sweep sweep_;
};

}  // namespace

void Sweeper::Sweep(SweepRequest request, CancellationPtr cancellation, ProgressListener progress,
                    Done done) {
  if (absl::Status checked = CheckRequest(request, environment_.device_threads); !checked.ok()) {
    return done(std::move(checked));
  }
  const auto bytes = static_cast<int64_t>(request.image.size());
  line_.AddFor<fovea::Sweep>(
      cancellation, bytes, [progress] { progress({.phase = Phase::kWaiting}); },
      [this, request = std::move(request), cancellation, progress] {
        return SweepRun(request, options_, catalog_, environment_, lane_, cancellation, progress)
            .Run();
      },
      std::move(done));
}

}  // namespace fovea
