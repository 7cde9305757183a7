// A runner of explanations that does as a test says.
#pragma once

#include <string>
#include <utility>

#include "server/core/explanation.h"
#include "server/core/testing/notification.h"

namespace fovea {

// Keeps the request until the test answers it. One at a time.
class FakeExplanations final : public ExplanationRunner {
 public:
  void Explain(ExplainRequest request, CancellationPtr cancellation, Done done) override {
    request_ = std::move(request);
    cancellation_ = std::move(cancellation);
    done_ = std::move(done);
    cancellation_->OnCancel([this] { cancelled_.Notify(); });
    asked_.Notify();
  }

  // Once it has been asked.
  const ExplainRequest& request() {
    asked_.Wait();
    return request_;
  }
  void Answer(absl::StatusOr<Explanation> explanation) {
    asked_.Wait();
    std::exchange(done_, nullptr)(std::move(explanation));
  }
  void AwaitCancelled() { cancelled_.Wait(); }

  // With something in each kind of field, and `pictures` pictures of maps.
  static Explanation Example(int pictures) {
    Explanation explanation{.id = "e1",
                            .model_name = "vit",
                            .model_version = "1",
                            .attention = "knn:k=3",
                            .weights_of_attention = "dense",
                            .image = {48, 64}};
    explanation.target = Explanation::Target{.class_index = 2, .label = "cat", .probability = 0.5};
    for (int i = 0; i < pictures; ++i) {
      explanation.maps.push_back({.layer = "blocks." + std::to_string(i),
                                  .layer_number = i,
                                  .rows = 1,
                                  .columns = 2,
                                  .values = {0.25, 0.75},
                                  .png = "png" + std::to_string(i)});
    }
    explanation.measures = {{.layer = "blocks.0",
                             .cosine_similarity = 0.5,
                             .attention_standard_deviation = 0.125,
                             .attention_norm_ratio = 2,
                             .mlp_norm_ratio = 3,
                             .nonlocality = {1.5, 2.5}},
                            {.layer = "blocks.1"}};
    return explanation;
  }

 private:
  Notification asked_, cancelled_;
  ExplainRequest request_;
  CancellationPtr cancellation_;
  Done done_;
};

}  // namespace fovea
