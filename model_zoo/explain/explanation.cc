#include "model_zoo/explain/explanation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <utility>

#include "model_zoo/explain/explaining_context.h"
#include "model_zoo/explain/relevance.h"

namespace fovea::models {
namespace {

using Refusal = Explanation::Refusal;

Explanation Refused(Refusal refusal, std::string why) {
  Explanation explanation;
  explanation.refusal = refusal;
  explanation.why = std::move(why);
  return explanation;
}

Explanation Unfit(const Backbone& backbone, const std::string& method, const std::string& why) {
  const ModelInfo& info = backbone.info();
  const std::string attention = info.attention.empty() ? "" : " with " + info.attention;
  return Refused(Refusal::kUnfit,
                 method + " is not defined for " + info.backbone + attention + ": " + why);
}

bool GivesLogits(const ModelInfo& info) {
  return info.outputs.size() == 1 && info.outputs[0].name == "logits" &&
         info.outputs[0].shape == std::vector<int64_t>{info.num_classes};
}

// Gradients of `output` by the weights of each block's attention; `stop` is asked at each of them.
// Throws Stopped.
std::vector<at::Tensor> GradientsOf(const at::Tensor& output, const std::vector<at::Tensor>& maps,
                                    const std::function<bool()>& stop) {
  std::vector<at::Tensor> gradients(maps.size());
  if (!output.requires_grad()) return gradients;  // the pass went through none of them
  for (const at::Tensor& map : maps) {
    if (!map.requires_grad()) continue;
    map.register_hook([&stop](const at::Tensor& /*gradient*/) {
      if (stop()) throw Stopped();
    });
  }
  gradients = torch::autograd::grad({output}, maps, /*grad_outputs=*/{}, /*retain_graph=*/false,
                                    /*create_graph=*/false, /*allow_unused=*/true);
  return gradients;
}

PatchWeights Shown(const at::Tensor& behind, const Grid& grid, const ExplainOptions& options) {
  return {"", QueryRow(behind.unsqueeze(0), grid, options)};
}

}  // namespace

at::Tensor RollOut(const at::Tensor& weights, const at::Tensor& behind) {
  const at::Tensor mean = weights.mean(0);
  return at::matmul((mean + at::eye(mean.size(0), mean.options())) / 2, behind);
}

at::Tensor FollowGradients(const at::Tensor& gradient, const at::Tensor& relevance,
                           const at::Tensor& behind) {
  return behind + at::matmul((gradient * relevance).clamp_min(0).mean(0), behind);
}

Explanation Explain(const Backbone& backbone, const at::Tensor& pixels,
                    const ExplainOptions& options) try {
  const auto stop = [&] { return options.stop && options.stop(); };
  for (at::Tensor& parameter : backbone.parameters()) parameter.requires_grad_(false);
  ExplainingContext context(options);
  const ModelInfo& info = backbone.info();
  if (context.Differentiates() && !GivesLogits(info)) {
    return Unfit(backbone, options.attribution ? "attribution" : "gradient rollout",
                 "it gives no classes, whose share could be followed");
  }
  const at::AutoGradMode record(context.Differentiates());
  const std::vector<at::Tensor> outputs = backbone.forward(pixels, context);
  if (context.refusal() != Refusal::kNone) return Refused(context.refusal(), context.why());

  Explanation explanation;
  explanation.maps = std::move(context.maps);
  explanation.measures = context.measures();
  at::Tensor logits;
  if (GivesLogits(info)) {
    logits = outputs.at(0)[0];
    explanation.target = options.target.value_or(logits.argmax().item<int64_t>());
    explanation.probability =
        logits.detach().to(at::kDouble).softmax(0)[*explanation.target].item<double>();
  }
  const auto check_chain = [&](const std::string& method) -> std::optional<Explanation> {
    if (context.no_chain().empty()) return std::nullopt;
    return Unfit(backbone, method,
                 "it follows the same tokens through every layer, and " + context.no_chain());
  };
  if (options.rollout) {
    if (auto refused = check_chain("rollout")) return *refused;
    if (!context.no_shares().empty()) return Unfit(backbone, "rollout", context.no_shares());
    if (!context.rolled_out.defined()) return Unfit(backbone, "rollout", "it has no attention");
    explanation.rollout = Shown(context.rolled_out, context.grid(), options);
  }
  if (!context.Differentiates()) return explanation;

  const std::string method = options.attribution ? "attribution" : "gradient rollout";
  if (auto refused = check_chain(method)) return *refused;
  if (context.blocks.empty()) return Unfit(backbone, method, "it has no attention");
  std::vector<at::Tensor> maps;
  for (const BlockPass& block : context.blocks) maps.push_back(block.map);
  const std::vector<at::Tensor> gradients = GradientsOf(logits[*explanation.target], maps, stop);
  for (size_t i = 0; i < maps.size(); ++i) {
    if (gradients[i].defined()) continue;
    return Unfit(backbone, method,
                 "the weights over tokens in " + context.blocks[i].layer +
                     " do not say all that its attention does");
  }
  const at::NoGradGuard no_grad;
  const at::Tensor start = at::eye(context.grid().tokens(), maps[0].options());
  if (options.gradient_rollout) {
    at::Tensor behind = start;
    for (size_t i = 0; i < maps.size(); ++i) {
      if (stop()) throw Stopped();
      behind = FollowGradients(gradients[i][0], maps[i][0], behind);
    }
    explanation.gradient_rollout = Shown(behind - start, context.grid(), options);
  }
  if (options.attribution) {
    std::string why;
    const auto relevance = AttentionRelevance(backbone, context.blocks, context.grid(), logits,
                                              *explanation.target, stop, &why);
    if (!relevance) {
      return Unfit(backbone, "attribution", why + "; ask for the gradient rollout");
    }
    at::Tensor behind = start.to(at::kDouble);
    for (size_t i = 0; i < maps.size(); ++i) {
      if (stop()) throw Stopped();
      behind = FollowGradients(gradients[i][0].to(at::kDouble), (*relevance)[i], behind);
    }
    explanation.attribution = Shown(behind - start, context.grid(), options);
  }
  return explanation;
} catch (const Stopped&) {
  return Refused(Refusal::kStopped, "");
}

}  // namespace fovea::models
