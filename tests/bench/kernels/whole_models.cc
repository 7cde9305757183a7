// A whole model with k-NN attention against the same model with dense attention.
#include <memory>

#include "model_zoo/model.h"
#include "model_zoo/model_description.h"
#include "model_zoo/registry/load.h"
#include "tests/bench/kernels/contest.h"

namespace fovea::bench {
namespace {

std::shared_ptr<models::Model> Prepared(const std::string& attention, at::ScalarType type) {
  models::ModelDescription description{.backbone = "deit_small_patch16_224",
                                       .random_weights_seed = 0};
  description.attention = {attention};
  std::shared_ptr<models::Model> model = models::LoadModel(description);
  model->Prepare(c10::kCPU,
                 type == at::kFloat ? models::Precision::kFp32 : models::Precision::kBf16);
  return model;
}

}  // namespace

std::vector<Contest> ModelContests(int cores) {
  std::vector<Contest> contests;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t batch : {1, 8}) {
      contests.push_back({.floor = "knn_model_to_dense_model",
                          .ours = "DeiT-S, knn:k=100",
                          .peer = "DeiT-S, dense",
                          .shape = BatchText(batch) + " 224x224",
                          .type = type,
                          .threads = cores,
                          .turns = batch == 1 ? 31 : 9,
                          .set_up = [=]() -> Contest::Sides {
                            const at::Tensor pixels = at::randn({batch, 3, 224, 224});
                            const auto run = [=](const std::string& attention) {
                              const auto model = Prepared(attention, type);
                              return [=] {
                                models::ForwardContext context;
                                return model->Run(pixels, context)[0];
                              };
                            };
                            return {run("knn:k=100"), run("dense")};
                          }});
    }
  }
  return contests;
}

}  // namespace fovea::bench
