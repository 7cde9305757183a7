// Heads that attend windows of different shapes, side by side, with any core. (The operators
// cross_shaped_window_attention and pale_attention do the same for dense attention alone.)
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/factory.h"
#include "model_zoo/attention/windows.h"

namespace fovea::models {

// The heads of a map in as many groups, equal in number, as there are kinds of windows: the first
// group attends the first kind, and so on. Each group has a core of its own, for the number of keys
// that its queries see. Thread-safe once it is where the maps are.
class WindowedHeads {
 public:
  WindowedHeads(std::vector<Windows> groups, int64_t head_dim, const AttentionFactory& cores);

  size_t groups() const { return groups_.size(); }
  const Windows& windows(size_t group) const { return groups_[group].windows; }

  // The heads of a group in a map [B, heads, height, width, D]; a view.
  at::Tensor Of(const at::Tensor& map, size_t group) const;

  // query, key, value [B, heads, height, width, D], heads a multiple of groups() -> what the
  // group's heads gather, side by side: [B, height, width, heads / groups() * D].
  at::Tensor AttendGroup(size_t group, const at::Tensor& query, const at::Tensor& key,
                         const at::Tensor& value) const;
  // All groups side by side: [B, height, width, heads * D].
  at::Tensor Attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const;

  // The weights of all heads, [B, heads, height*width, height*width] in fp32.
  at::Tensor Map(const at::Tensor& query, const at::Tensor& key) const;

 private:
  struct Group {
    Windows windows;
    std::shared_ptr<const AttentionCore> core;
  };
  std::vector<Group> groups_;
};

// Horizontal stripes of `stripe`[0] rows and vertical ones of `stripe`[1] columns, which divide the
// map.
std::vector<Windows> Stripes(const std::array<int64_t, 2>& map,
                             const std::array<int64_t, 2>& stripe);

// The order of a map's lines in which those of a pale lie next to each other: of `together`[0] rows
// (`together`[1] columns) that are spread evenly over the map, height / together[0] rows apart.
class Interlacing {
 public:
  explicit Interlacing(const std::array<int64_t, 2>& together) : together_(together) {}

  // [B, height, width, ...], which `together` divides -> the same, pale by pale on both axes.
  at::Tensor Gather(const at::Tensor& map) const;
  // And back.
  at::Tensor Spread(const at::Tensor& map) const;
  // Weights [B, heads, height*width, height*width] between gathered places -> in the map's own
  // order; `map` is its height and width.
  at::Tensor SpreadWeights(const at::Tensor& weights, const std::array<int64_t, 2>& map) const;

 private:
  std::array<int64_t, 2> together_;
};

}  // namespace fovea::models
