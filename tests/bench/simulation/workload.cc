#include "tests/bench/simulation/workload.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "base/check.h"

namespace fovea::bench {
namespace {

// Of all of them together, whatever their popularity.
constexpr Nanos kMeanPerImage = 3 * kMillisecond;
constexpr double kPopularityExponent = 0.9;  // Zipf's
constexpr double kCancelled = 0.02;          // the share of the callers that go

constexpr double kCalmRate = 0.5, kBurstRate = 3;  // times the mean; their mean is 1
constexpr Nanos kCalm = 2 * kSecond, kBurst = kSecond / 2;
constexpr double kDiurnalSwing = 0.8;

std::vector<SimulatedModel> MakeModels(const WorkloadOptions& options) {
  std::mt19937_64 random(options.seed);
  std::lognormal_distribution<double> size(0, 0.7);
  std::vector<SimulatedModel> models(options.models);
  double popularity = 0, mean_size = 0;
  std::vector<double> sizes;
  for (size_t i = 0; i < models.size(); ++i) {
    models[i].popularity = std::pow(i + 1, -kPopularityExponent);
    popularity += models[i].popularity;
    sizes.push_back(size(random));
    mean_size += sizes.back() * models[i].popularity;
  }
  mean_size /= popularity;
  for (size_t i = 0; i < models.size(); ++i) {
    models[i].popularity /= popularity;
    models[i].per_image = static_cast<Nanos>(kMeanPerImage * sizes[i] / mean_size);
    models[i].per_batch = 2 * models[i].per_image;
  }
  return models;
}

// Threads that its full batches would keep busy.
double ThreadsWanted(const SimulatedModel& model, double requests_per_second) {
  const double rate = requests_per_second * model.popularity / model.max_batch_size;
  return rate * static_cast<double>(model.RunTime(model.max_batch_size)) / kSecond;
}

// The rate at each moment, over the mean.
class Rate {
 public:
  Rate(ArrivalProcess process, Nanos duration, uint64_t seed)
      : process_(process), duration_(duration), random_(seed) {}

  double Most() const {
    switch (process_) {
      case ArrivalProcess::kPoisson:
        return 1;
      case ArrivalProcess::kBursty:
        return kBurstRate;
      case ArrivalProcess::kDiurnal:
        return 1 + kDiurnalSwing;
    }
    FOVEA_CHECK(false && "a process without a rate");
  }
  // `at` does not go back from call to call.
  double At(Nanos at) {
    switch (process_) {
      case ArrivalProcess::kPoisson:
        return 1;
      case ArrivalProcess::kBursty:
        while (at >= until_) {
          burst_ = !burst_;
          std::exponential_distribution<double> length(1.0 / (burst_ ? kBurst : kCalm));
          until_ += static_cast<Nanos>(length(random_)) + 1;
        }
        return burst_ ? kBurstRate : kCalmRate;
      case ArrivalProcess::kDiurnal:
        return 1 - kDiurnalSwing * std::cos(2 * std::numbers::pi * at / duration_);
    }
    FOVEA_CHECK(false && "a process without a rate");
  }

 private:
  const ArrivalProcess process_;
  const Nanos duration_;
  std::mt19937_64 random_;
  bool burst_ = true;  // before the first, which is calm
  Nanos until_ = 0;
};

}  // namespace

Nanos SimulatedModel::RunTime(int images) const {
  if (measured.empty()) return per_batch + per_image * images;
  const auto next = std::find_if(measured.begin(), measured.end(),
                                 [&](const auto& batch) { return batch.first >= images; });
  if (next == measured.end()) return measured.back().second;
  if (next == measured.begin()) return next->second;
  const auto& [less, less_took] = *(next - 1);
  const double share = static_cast<double>(images - less) / (next->first - less);
  return less_took + static_cast<Nanos>(share * static_cast<double>(next->second - less_took));
}

std::string ArrivalProcessName(ArrivalProcess process) {
  switch (process) {
    case ArrivalProcess::kPoisson:
      return "poisson";
    case ArrivalProcess::kBursty:
      return "bursty";
    case ArrivalProcess::kDiurnal:
      return "diurnal";
  }
  FOVEA_CHECK(false && "a process without a name");
}

std::vector<Nanos> ArrivalTimes(double requests_per_second, Nanos duration, uint64_t seed,
                                ArrivalProcess process) {
  std::mt19937_64 random(seed + 1);
  Rate rate(process, duration, seed + 2);
  std::exponential_distribution<double> gap(requests_per_second * rate.Most() / kSecond);
  std::uniform_real_distribution<double> share(0, 1);
  std::vector<Nanos> times;
  for (double at = gap(random); at < duration; at += gap(random)) {
    const auto now = static_cast<Nanos>(at);
    if (share(random) * rate.Most() < rate.At(now)) times.push_back(now);  // thinned to the rate
  }
  return times;
}

Workload MakeWorkload(const WorkloadOptions& options, ArrivalProcess process) {
  Workload workload{.models = MakeModels(options)};
  std::vector<double> popularity;
  for (SimulatedModel& model : workload.models) {
    model.threads_wanted = ThreadsWanted(model, options.requests_per_second);
    workload.threads_wanted += model.threads_wanted;
    // Twice what it needs on average, so that the device and not the model is what is short.
    model.instances = std::max(1, static_cast<int>(std::ceil(2 * model.threads_wanted)));
    popularity.push_back(model.popularity);
  }
  std::mt19937_64 random(options.seed + 1);
  Rate rate(process, options.duration, options.seed + 2);
  std::exponential_distribution<double> gap(options.requests_per_second * rate.Most() / kSecond);
  std::discrete_distribution<int> choice(popularity.begin(), popularity.end());
  std::uniform_real_distribution<double> share(0, 1);
  for (double at = gap(random); at < options.duration; at += gap(random)) {
    const auto now = static_cast<Nanos>(at);
    if (share(random) * rate.Most() >= rate.At(now)) continue;  // thinned to the rate of now
    Arrival arrival{.at = now, .model = choice(random)};
    const SimulatedModel& model = workload.models[arrival.model];
    // Between three and twelve runs of a full batch.
    arrival.patience =
        static_cast<Nanos>((3 + 9 * share(random)) * model.RunTime(model.max_batch_size));
    if (share(random) < kCancelled) {
      arrival.cancels = static_cast<Nanos>(share(random) * arrival.patience);
    }
    workload.arrivals.push_back(arrival);
  }
  return workload;
}

}  // namespace fovea::bench
