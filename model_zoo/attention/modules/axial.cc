#include <ATen/ATen.h>

#include <utility>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/windows.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {
namespace {

class Axial final : public AttentionModule {
 public:
  Axial(const ModuleSite& site, const AttentionFactory& cores)
      : heads_(site.heads),
        rows_({site.grid.height, site.grid.width}, {1, site.grid.width}),
        columns_({site.grid.height, site.grid.width}, {site.grid.height, 1}),
        row_core_(CoreOf(site, rows_, cores)),
        column_core_(CoreOf(site, columns_, cores)),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)) {}

  at::Tensor forward(at::Tensor tokens, const Grid& grid) const override {
    at::Tensor qkv = Project(tokens, grid);
    tokens.reset();
    at::Tensor gathered = row_core_->AttendWindows(qkv[0], qkv[1], qkv[2], rows_);
    const at::Tensor mixed = column_core_->AttendWindows(qkv[0], qkv[1], gathered, columns_);
    qkv.reset();
    gathered.reset();
    return proj_->forward(mixed.permute({0, 2, 3, 1, 4}).flatten(3).flatten(1, 2));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& grid) const override {
    const at::Tensor qkv = Project(tokens, grid);
    return at::matmul(column_core_->MapWindows(qkv[0], qkv[1], columns_),
                      row_core_->MapWindows(qkv[0], qkv[1], rows_));
  }

 private:
  static std::shared_ptr<const AttentionCore> CoreOf(const ModuleSite& site, const Windows& line,
                                                     const AttentionFactory& cores) {
    return cores.Core({.head_dim = site.channels / site.heads, .keys = line.tokens()});
  }

  // [3, B, heads, height, width, D].
  at::Tensor Project(const at::Tensor& tokens, const Grid& grid) const {
    return qkv_->forward(tokens)
        .unflatten(2, {3, heads_, -1})
        .unflatten(1, {grid.height, grid.width})
        .permute({3, 0, 4, 1, 2, 5});
  }

  const int64_t heads_;
  Windows rows_;
  Windows columns_;
  const std::shared_ptr<const AttentionCore> row_core_;
  const std::shared_ptr<const AttentionCore> column_core_;
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
};

}  // namespace

std::shared_ptr<AttentionModule> MakeAxial(const AttentionSpec& /*spec*/, const ModuleSite& site,
                                           const AttentionFactory& cores) {
  RefusePrefixTokens(site);
  return std::make_shared<Axial>(site, cores);
}

}  // namespace fovea::models
