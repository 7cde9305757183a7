// The places that requests hold in a queue while they are being prepared.
#pragma once

#include <compare>

#include "absl/container/flat_hash_map.h"
#include "server/core/weighted_order.h"
#include "server/scheduler/task.h"

namespace fovea {

// Not thread-safe. Ordered as the line that they will join.
class Reservations {
 public:
  void Add(TaskId id, int priority, Nanos order, int images) {
    const Place place{priority, order, id};
    places_.emplace(id, place);
    by_order_.Insert(place, images);
    ++sizes_[priority];
  }

  // Whether there was one.
  bool Take(TaskId id) {
    const auto found = places_.find(id);
    if (found == places_.end()) return false;
    by_order_.Erase(found->second);
    --sizes_[found->second.priority];
    places_.erase(found);
    return true;
  }

  void Clear() { *this = {}; }

  int size() const { return static_cast<int>(places_.size()); }
  int size(int priority) const {
    const auto found = sizes_.find(priority);
    return found == sizes_.end() ? 0 : found->second;
  }
  int images() const { return static_cast<int>(by_order_.total()); }
  // Of those that will be in line before a task that would come now. O(log n).
  int ImagesBefore(int priority, Nanos order) const {
    return static_cast<int>(by_order_.Before({priority, order, ~TaskId{0}}));
  }

 private:
  struct Place {
    int priority;
    Nanos order;  // inside its priority
    TaskId id;
    auto operator<=>(const Place&) const = default;  // NOLINT: it compares with a literal 0
  };
  absl::flat_hash_map<TaskId, Place> places_;
  WeightedOrder<Place, std::less<>> by_order_;  // weighed by their images
  absl::flat_hash_map<int, int> sizes_;         // of each priority that ever had one
};

}  // namespace fovea
