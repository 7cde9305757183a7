#include "kernels/attention/window_attention/compositions.h"

#include <ATen/Functions.h>
#include <torch/library.h>

#include "kernels/attention/shared/token_sets.h"
#include "kernels/attention/window_attention/op.h"
#include "kernels/contract.h"

namespace fovea::kernels {
namespace {

constexpr int kRows = 2, kColumns = 3;  // dimensions of a map

void CheckHalves(const Contract& contract, const at::Tensor& query, const at::Tensor& key,
                 const at::Tensor& value) {
  CheckMaps(contract, query, key, value);
  contract.IsMultipleOf("query's head count", query.sym_size(1), 2);
}

// Attention of one half of the heads each, side by side.
template <class First, class Second>
at::Tensor InHalves(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const First& first, const Second& second) {
  const int64_t half = query.size(1) / 2;
  const auto low = [&](const at::Tensor& map) { return map.narrow(1, 0, half); };
  const auto high = [&](const at::Tensor& map) { return map.narrow(1, half, half); };
  return at::cat(
      {first(low(query), low(key), low(value)), second(high(query), high(key), high(value))}, 1);
}

// Brings the lines of an axis that are size / count apart next to each other, and back.
at::Tensor Deinterlace(const at::Tensor& map, int axis, int64_t count) {
  return map.unflatten(axis, {count, map.size(axis) / count})
      .transpose(axis, axis + 1)
      .flatten(axis, axis + 1);
}
at::Tensor Interlace(const at::Tensor& map, int axis, int64_t count) {
  return Deinterlace(map, axis, map.size(axis) / count);
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("axial_attention(Tensor query, Tensor key, Tensor value, float? scale=None) -> Tensor",
        AxialAttention);
  m.def(
      "cross_shaped_window_attention(Tensor query, Tensor key, Tensor value, int stripe, "
      "float? scale=None) -> Tensor",
      CrossShapedWindowAttention);
  m.def(
      "pale_attention(Tensor query, Tensor key, Tensor value, int[2] pale, float? scale=None) -> "
      "Tensor",
      PaleAttention);
}

}  // namespace

at::Tensor AxialAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          std::optional<double> scale) {
  CheckMaps(Contract("axial_attention"), query, key, value);
  const at::Tensor rows =
      WindowAttention(query, key, value, {1, query.size(kColumns)}, {0, 0}, scale);
  return WindowAttention(query, key, rows, {query.size(kRows), 1}, {0, 0}, scale);
}

at::Tensor CrossShapedWindowAttention(const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, int64_t stripe,
                                      std::optional<double> scale) {
  const Contract contract("cross_shaped_window_attention");
  CheckHalves(contract, query, key, value);
  contract.Divides("stripe", stripe, query.sym_size(kRows), "the map's height");
  contract.Divides("stripe", stripe, query.sym_size(kColumns), "the map's width");
  const auto stripes = [&](at::IntArrayRef window) {
    return [window = window.vec(), scale](const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v) {
      return WindowAttention(q, k, v, window, {0, 0}, scale);
    };
  };
  return InHalves(query, key, value, stripes({stripe, query.size(kColumns)}),
                  stripes({query.size(kRows), stripe}));
}

at::Tensor PaleAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         at::IntArrayRef pale, std::optional<double> scale) {
  const Contract contract("pale_attention");
  CheckHalves(contract, query, key, value);
  contract.HasLength("pale", pale, 2);
  contract.Divides("pale", pale[0], query.sym_size(kRows), "the map's height");
  contract.Divides("pale", pale[1], query.sym_size(kColumns), "the map's width");
  const auto lines = [&](int axis, int64_t count) {
    return [axis, count, scale](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      const at::Tensor query = Deinterlace(q, axis, count);
      const at::IntArrayRef sizes = query.sizes();
      const std::array<int64_t, 2> window = {axis == kRows ? count : sizes[kRows],
                                             axis == kColumns ? count : sizes[kColumns]};
      return Interlace(WindowAttention(query, Deinterlace(k, axis, count),
                                       Deinterlace(v, axis, count), window, {0, 0}, scale),
                       axis, count);
    };
  };
  return InHalves(query, key, value, lines(kRows, pale[0]), lines(kColumns, pale[1]));
}

}  // namespace fovea::kernels
