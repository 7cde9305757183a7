#include "model_zoo/training/data/user_data/held_out.h"

#include <utility>

#include "model_zoo/training/data/fnv1a.h"
#include "model_zoo/training/data/random.h"

namespace fovea::models::training {

double PlaceOfName(std::string_view name) {
  const size_t slash = name.rfind('/'), dot = name.rfind('.');
  if (dot != std::string_view::npos && (slash == std::string_view::npos || dot > slash + 1)) {
    name = name.substr(0, dot);
  }
  return Random(Fnv1a(name), /*stream=*/0, /*index=*/0).Next() * 0x1p-32;
}

TrainingData HoldOut(const std::shared_ptr<const SampleSource>& all, double share) {
  if (all->size() < 2) throw DataError("of a single picture none can be held out");
  std::vector<uint64_t> kept, held;
  uint64_t lowest = 0;
  double lowest_place = 1;
  for (uint64_t i = 0; i < all->size(); ++i) {
    const double place = PlaceOfName(all->Name(i));
    (place < share ? held : kept).push_back(i);
    if (place < lowest_place) {
      lowest_place = place;
      lowest = i;
    }
  }
  if (held.empty() || kept.empty()) {
    held = {lowest};
    kept.clear();
    for (uint64_t i = 0; i < all->size(); ++i) {
      if (i != lowest) kept.push_back(i);
    }
  }
  return {std::make_shared<Subset>(all, std::move(kept)),
          std::make_shared<Subset>(all, std::move(held)),
          {}};
}

Subset::Subset(std::shared_ptr<const SampleSource> all, std::vector<uint64_t> indices)
    : all_(std::move(all)), indices_(std::move(indices)) {}

}  // namespace fovea::models::training
