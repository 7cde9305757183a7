#include "server/compare/live/traffic_split.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace fovea {
namespace {

// FNV-1a, of 64 bits: simple, and the same everywhere. Its bits are mixed after it.
uint64_t HashText(std::string_view text, uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): each bit depends on all.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// In (0, 1), by the highest 53 bits.
double Share(uint64_t hash) { return (static_cast<double>(hash >> 11) + 0.5) * 0x1.0p-53; }

}  // namespace

TrafficSplit::TrafficSplit(std::string_view salt, std::vector<Arm> arms) : salt_(HashText(salt)) {
  double sum = 0;
  for (const Arm& arm : arms) {
    FOVEA_CHECK(std::isfinite(arm.weight) && arm.weight >= 0);
    sum += arm.weight;
    arms_.push_back({Mix(HashText(arm.name)), arm.weight});
  }
  FOVEA_CHECK(sum > 0);
}

size_t TrafficSplit::Choose(std::string_view key) const {
  return ChooseHash(Mix(HashText(key, Mix(salt_))));
}

size_t TrafficSplit::Choose(uint64_t draw) const { return ChooseHash(Mix(draw ^ Mix(salt_))); }

size_t TrafficSplit::ChooseHash(uint64_t hash) const {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < arms_.size(); ++i) {
    if (arms_[i].weight == 0) continue;
    // Exponentially distributed with the weight as its rate: each is the least with a probability
    // of its weight's share.
    const double drawn = -std::log(Share(Mix(hash ^ arms_[i].seed))) / arms_[i].weight;
    if (drawn < least) {
      least = drawn;
      best = i;
    }
  }
  return best;
}

}  // namespace fovea
