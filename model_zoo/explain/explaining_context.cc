#include "model_zoo/explain/explaining_context.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace fovea::models {
namespace {

// Numbers of a map's size that its reference holds at once, logits sorted with their places among
// them; and that autograd keeps of it for the way back.
constexpr int64_t kWhileMade = 8;
constexpr int64_t kKept = 6;
// How far rows may be from a sum of one.
constexpr double kRowTolerance = 1e-3;

bool IsBranch(std::string_view layer) {
  return layer.ends_with(".attn") || layer.ends_with(".mlp");
}

std::string BlockOf(std::string_view layer) {
  constexpr std::string_view kBranch = ".attn";
  if (layer.ends_with(kBranch)) layer.remove_suffix(kBranch.size());
  return std::string(layer);
}

std::string Text(const Grid& grid) {
  std::string text = std::to_string(grid.height) + "x" + std::to_string(grid.width);
  if (grid.prefix_tokens > 0) text += " and " + std::to_string(grid.prefix_tokens);
  return text + " tokens";
}

}  // namespace

at::Tensor QueryRow(const at::Tensor& weights, const Grid& grid, const ExplainOptions& options) {
  const at::Tensor over_patches = weights.narrow(2, grid.prefix_tokens, grid.height * grid.width);
  at::Tensor row;
  if (options.place) {
    const auto at = [](double share, int64_t side) {
      return std::clamp(static_cast<int64_t>(share * static_cast<double>(side)), int64_t{0},
                        side - 1);
    };
    const int64_t patch =
        at((*options.place)[0], grid.height) * grid.width + at((*options.place)[1], grid.width);
    row = over_patches.select(1, grid.prefix_tokens + patch);
  } else if (grid.prefix_tokens > 0) {
    row = over_patches.select(1, 0);
  } else {
    row = over_patches.mean(1);
  }
  return row.unflatten(1, {grid.height, grid.width}).to(at::kFloat).contiguous();
}

bool ExplainingContext::ShouldStop() {
  if (refusal_ == Explanation::Refusal::kNone && options_.stop && options_.stop()) {
    refusal_ = Explanation::Refusal::kStopped;
  }
  return refusal_ != Explanation::Refusal::kNone;
}

void ExplainingContext::Refuse(Explanation::Refusal refusal, std::string why) {
  if (refusal_ != Explanation::Refusal::kNone) return;
  refusal_ = refusal;
  why_ = std::move(why);
}

bool ExplainingContext::WantsMap(std::string_view layer, int64_t heads, const Grid& grid) {
  if (refusal_ != Explanation::Refusal::kNone) return false;
  // In doubles: sides of a detector's input make more than 2^63 of them.
  const auto tokens = static_cast<double>(grid.tokens());
  const double map = 4.0 * static_cast<double>(heads) * tokens * tokens;
  const double rolled = options_.rollout ? 3 * 4.0 * tokens * tokens : 0;
  const double wanted = static_cast<double>(held_bytes_) + kWhileMade * map + rolled;
  if (wanted > static_cast<double>(options_.max_bytes)) {
    Refuse(Explanation::Refusal::kTooLarge,
           "the attention of " + BlockOf(layer) + " has " + std::to_string(heads) + " heads over " +
               Text(grid) + ", and explaining it takes " +
               std::to_string(static_cast<int64_t>(wanted / (1 << 20)) + 1) + " MiB");
    return false;
  }
  if (Differentiates()) held_bytes_ += static_cast<int64_t>(kKept * map);
  return true;
}

void ExplainingContext::Record(std::string_view layer, std::string_view name,
                               const at::Tensor& tensor) {
  if (name != "output") return;
  if (options_.measures) measuring_.Record(layer, name, tensor.detach());
  if (layer.ends_with(".attn")) {
    current_.attention = tensor.detach();
  } else if (layer.ends_with(".mlp")) {
    current_.mlp = tensor.detach();
  } else if (!IsBranch(layer)) {
    if (!current_map_ && no_chain_.empty()) {
      no_chain_ = std::string(layer) + " has no attention weights";
    }
    current_.layer = std::string(layer);
    current_.output = tensor.detach();
    if (Differentiates()) blocks.push_back(std::exchange(current_, {}));
    current_ = {};
    current_map_ = false;
  }
}

void ExplainingContext::RecordMap(std::string_view layer, const at::Tensor& weights,
                                  const Grid& grid) {
  const at::Tensor values = weights.detach();
  const std::string block = BlockOf(layer);
  if (options_.measures) measuring_.RecordMap(layer, values, grid);
  if (options_.maps) maps.push_back({block, QueryRow(values[0], grid, options_)});
  Chain(block, values, grid);
  if (Differentiates()) current_.map = weights;
  current_map_ = true;
}

void ExplainingContext::Chain(const std::string& layer, const at::Tensor& weights,
                              const Grid& grid) {
  if (!any_map_) grid_ = grid;
  any_map_ = true;
  if (!(grid == grid_)) {
    if (no_chain_.empty()) {
      no_chain_ = "its layers have " + Text(grid_) + " and, in " + layer + ", " + Text(grid);
    }
    return;
  }
  if (!options_.rollout || !no_chain_.empty() || !no_shares_.empty()) return;
  const double off = (weights.sum(-1) - 1).abs().max().item<double>();
  if (!(off <= kRowTolerance) || weights.min().item<double>() < -kRowTolerance) {
    no_shares_ = "the weights of " + layer + " are no shares of a whole";
    return;
  }
  if (!rolled_out.defined()) rolled_out = at::eye(grid.tokens(), weights.options());
  rolled_out = RollOut(weights[0], rolled_out);
}

}  // namespace fovea::models
