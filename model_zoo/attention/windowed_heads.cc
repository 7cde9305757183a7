#include "model_zoo/attention/windowed_heads.h"

#include <ATen/ATen.h>

#include <utility>

namespace fovea::models {
namespace {

// [B, a * b, c * d, ...] -> [B, b * a, d * c, ...].
at::Tensor SwapWithinAxes(const at::Tensor& map, int64_t a, int64_t c) {
  return map.unflatten(2, {c, -1})
      .unflatten(1, {a, -1})
      .transpose(3, 4)
      .transpose(1, 2)
      .flatten(3, 4)
      .flatten(1, 2);
}

}  // namespace

WindowedHeads::WindowedHeads(std::vector<Windows> groups, int64_t head_dim,
                             const AttentionFactory& cores) {
  for (Windows& windows : groups) {
    const int64_t keys = windows.tokens();
    groups_.push_back({std::move(windows), cores.Core({.head_dim = head_dim, .keys = keys})});
  }
}

at::Tensor WindowedHeads::Of(const at::Tensor& map, size_t group) const {
  const int64_t heads = map.size(1) / static_cast<int64_t>(groups_.size());
  return map.narrow(1, static_cast<int64_t>(group) * heads, heads);
}

at::Tensor WindowedHeads::AttendGroup(size_t group, const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value) const {
  const auto& [windows, core] = groups_[group];
  return core->AttendWindows(Of(query, group), Of(key, group), Of(value, group), windows)
      .permute({0, 2, 3, 1, 4})
      .flatten(3);
}

at::Tensor WindowedHeads::Attend(const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value) const {
  std::vector<at::Tensor> mixed;
  for (size_t i = 0; i < groups_.size(); ++i) mixed.push_back(AttendGroup(i, query, key, value));
  return at::cat(mixed, 3);
}

at::Tensor WindowedHeads::Map(const at::Tensor& query, const at::Tensor& key) const {
  std::vector<at::Tensor> maps;
  for (size_t i = 0; i < groups_.size(); ++i) {
    maps.push_back(groups_[i].core->MapWindows(Of(query, i), Of(key, i), groups_[i].windows));
  }
  return at::cat(maps, 1);
}

std::vector<Windows> Stripes(const std::array<int64_t, 2>& map,
                             const std::array<int64_t, 2>& stripe) {
  return {Windows(map, {stripe[0], map[1]}), Windows(map, {map[0], stripe[1]})};
}

at::Tensor Interlacing::Gather(const at::Tensor& map) const {
  return SwapWithinAxes(map, together_[0], together_[1]);
}

at::Tensor Interlacing::Spread(const at::Tensor& map) const {
  return SwapWithinAxes(map, map.size(1) / together_[0], map.size(2) / together_[1]);
}

at::Tensor Interlacing::SpreadWeights(const at::Tensor& weights,
                                      const std::array<int64_t, 2>& map) const {
  const at::Tensor places = at::arange(map[0] * map[1], weights.options().dtype(at::kLong));
  const at::Tensor gathered = Spread(places.view({1, map[0], map[1]})).flatten();
  return weights.index_select(2, gathered).index_select(3, gathered);
}

}  // namespace fovea::models
