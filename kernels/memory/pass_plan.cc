#include "kernels/memory/pass_plan.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace fovea::kernels {
namespace {

// A plan is made where a model warms up: within milliseconds.
constexpr size_t kMostTries = 64, kMostPairs = size_t{1} << 22;

bool LiveTogether(const BlockLife& a, const BlockLife& b) {
  return a.begin < b.end && b.begin < a.end;
}

struct Peak {
  size_t bytes = 0;   // of the blocks
  size_t placed = 0;  // with their headers, aligned: no range is smaller
};

Peak PeakOf(std::span<const BlockLife> blocks) {
  struct Event {
    int64_t at;
    size_t block;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].end == BlockLife::kBeyond) continue;
    events.push_back({blocks[i].begin, i});
    events.push_back({blocks[i].end, i});
  }
  std::ranges::sort(events, {}, &Event::at);
  Peak live, peak;
  for (const auto& [at, i] : events) {
    const size_t placed = PlacedBytes(blocks[i].bytes);
    if (at == blocks[i].end) {
      live = {live.bytes - blocks[i].bytes, live.placed - placed};
    } else {
      live = {live.bytes + blocks[i].bytes, live.placed + placed};
    }
    peak = {std::max(peak.bytes, live.bytes), std::max(peak.placed, live.placed)};
  }
  return peak;
}

// Blocks by size, the largest first.
std::vector<size_t> BySize(std::span<const BlockLife> blocks) {
  std::vector<size_t> order;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].end != BlockLife::kBeyond) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return blocks[i].bytes; });
  return order;
}

// In this order each block takes the smallest gap that holds it between those already placed with
// which it lives. How many bytes they take.
size_t Place(std::span<const BlockLife> blocks, std::span<const size_t> order,
             std::vector<PassPlan::Place>& places) {
  size_t end = 0;
  std::vector<size_t> placed;  // by offset
  for (const size_t i : order) {
    const size_t bytes = PlacedBytes(blocks[i].bytes);
    size_t best = PassPlan::Place::kNone, best_gap = PassPlan::Place::kNone, free_from = 0;
    for (const size_t other : placed) {
      if (!LiveTogether(blocks[i], blocks[other])) continue;
      const size_t offset = places[other].offset;
      if (offset >= free_from + bytes && offset - free_from < best_gap) {
        best = free_from;
        best_gap = offset - free_from;
      }
      free_from = std::max(free_from, offset + PlacedBytes(blocks[other].bytes));
    }
    if (best == PassPlan::Place::kNone) best = free_from;
    places[i].offset = best;
    end = std::max(end, best + bytes);
    placed.insert(std::ranges::upper_bound(placed, best, {},
                                           [&](size_t other) { return places[other].offset; }),
                  i);
  }
  return end;
}

}  // namespace

PassPlan PlanPass(std::span<const BlockLife> blocks) {
  PassPlan plan;
  for (const BlockLife& block : blocks) plan.places.push_back({.bytes = block.bytes});
  const Peak peak = PeakOf(blocks);
  plan.peak_bytes = peak.bytes;

  std::vector<size_t> order = BySize(blocks);
  plan.bytes = Place(blocks, order, plan.places);
  const size_t good_enough = peak.placed + peak.placed / 64;
  const size_t tries = std::min(kMostTries, kMostPairs / (1 + order.size() * order.size()));
  std::vector<PassPlan::Place> places = plan.places;
  for (size_t i = 0; i < tries && plan.bytes > good_enough; ++i) {
    const auto highest = std::ranges::max_element(
        order, {}, [&](size_t b) { return places[b].offset + PlacedBytes(places[b].bytes); });
    std::rotate(order.begin(), highest, std::next(highest));
    const size_t bytes = Place(blocks, order, places);
    if (bytes >= plan.bytes) continue;
    plan.bytes = bytes;
    plan.places = places;
  }
  return plan;
}

}  // namespace fovea::kernels
