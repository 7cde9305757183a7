// A machine in virtual time, whose passes take as long as on a real one that others use, too. For
// tests of validity: whether a way to compare finds differences where there are none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <ostream>
#include <random>
#include <string_view>

#include "server/core/clock.h"

namespace fovea {

// Noise of a machine. Times of passes that follow one another are autocorrelated through `wander`,
// `swing` and the bursts, and depend on what ran before through `cold_bytes` and `cold_weights`.
struct MachineNoise {
  std::string_view name;
  double jitter = 0.03;         // standard deviation of the logarithm of each pass by itself
  double stalls = 0.01;         // share of passes that another process holds up, some a hundredfold
  double wander = 0.05;         // standard deviation of the logarithm of the speed...
  double wander_seconds = 0.2;  // ...which forgets itself in this time
  double swing = 0.1;           // amplitude of the slow drift of the logarithm of the speed...
  double swing_seconds = 30;    // ...and its period
  double bursts = 0.3;          // a second, exponentially distributed
  double burst_seconds = 0.2;   // mean
  double burst_factor = 2;
  double cold_bytes = 0.25;    // of a pass's time, where the pass before it read another input
  double cold_weights = 0.15;  // of a pass's time, where the pass before it had other weights
  double cold_idle = 0.2;      // of a pass's time, after a millisecond or more without any
};

inline std::ostream& operator<<(std::ostream& out, const MachineNoise& noise) {
  return out << noise.name;
}

// Neither the mean of the noise nor its spread depends on which model runs.
inline constexpr MachineNoise kMachines[] = {
    {.name = "quiet", .stalls = 0.002, .wander = 0.01, .swing = 0.02, .bursts = 0.05},
    {.name = "shared"},
    {.name = "drifting", .swing = 0.7, .swing_seconds = 8},
    {.name = "bursty", .bursts = 2, .burst_factor = 4},
    {.name = "wandering", .wander = 0.2, .wander_seconds = 1},
    {.name = "stalling", .stalls = 0.05},
};

class SimulatedMachine {
 public:
  SimulatedMachine(const MachineNoise& noise, uint64_t seed) : noise_(noise), random_(seed) {
    phase_ = std::uniform_real_distribution(0.0, 6.28)(random_);
    next_burst_ = Exponential(1 / noise_.bursts);
  }

  Nanos Now() const { return static_cast<Nanos>(now_ * kSecond); }
  void Idle(double ms) { now_ += ms * 1e-3; }

  // Milliseconds of a pass that takes `quiet_ms` where nothing disturbs it and all is in the
  // caches.
  double Pass(double quiet_ms, uint64_t weights, uint64_t bytes) {
    double factor = Speed() * std::exp(Normal(noise_.jitter));
    factor += (weights_ != weights) * noise_.cold_weights + (bytes_ != bytes) * noise_.cold_bytes;
    factor += (now_ - ended_ >= 1e-3) * noise_.cold_idle;
    if (Chance(noise_.stalls)) factor *= std::min(100.0, 1 / std::sqrt(Uniform()));
    weights_ = weights;
    bytes_ = bytes;
    now_ += quiet_ms * factor * 1e-3;
    ended_ = now_;
    return quiet_ms * factor;
  }

  double Uniform() { return std::uniform_real_distribution(0.0, 1.0)(random_); }
  bool Chance(double share) { return Uniform() < share; }
  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }

 private:
  double Normal(double deviation) { return deviation * std::normal_distribution()(random_); }

  double Speed() {
    const double keep = std::exp(-(now_ - wandered_at_) / noise_.wander_seconds);
    wandered_at_ = now_;
    wandered_ = keep * wandered_ + Normal(noise_.wander * std::sqrt(1 - keep * keep));
    while (now_ > burst_end_ && now_ >= next_burst_) {
      burst_end_ = next_burst_ + Exponential(noise_.burst_seconds);
      next_burst_ = burst_end_ + Exponential(1 / noise_.bursts);
    }
    const double swing = noise_.swing * std::sin(phase_ + 6.28 * now_ / noise_.swing_seconds);
    return std::exp(wandered_ + swing) * (now_ < burst_end_ ? noise_.burst_factor : 1);
  }

  const MachineNoise noise_;
  std::mt19937_64 random_;
  double now_ = 0;  // seconds
  double ended_ = -1;
  double phase_, next_burst_, burst_end_ = 0;
  double wandered_ = 0, wandered_at_ = 0;
  std::optional<uint64_t> weights_, bytes_;  // of the pass before
};

}  // namespace fovea
