// Serves variants as a test says.
#pragma once

#include <utility>
#include <vector>

#include "server/core/testing/notification.h"
#include "server/core/variant_serving.h"

namespace fovea {

// Keeps the request until the test ends it. One at a time.
class FakeVariants final : public VariantServing {
 public:
  void Serve(ServeRequest request, CancellationPtr cancellation, ProgressListener progress,
             Served served, Done done) override {
    request_ = std::move(request);
    cancellation_ = std::move(cancellation);
    progress_ = std::move(progress);
    served_ = std::move(served);
    done_ = std::move(done);
    cancellation_->OnCancel([this] { cancelled_.Notify(); });
    asked_.Notify();
  }

  // Once it has been asked.
  const ServeRequest& request() {
    asked_.Wait();
    return request_;
  }
  void Tell(int done, int total) {
    asked_.Wait();
    progress_({.phase = ComparisonProgress::Phase::kLoading, .done = done, .total = total});
  }
  void TellServed() {
    asked_.Wait();
    served_({{.served_as = "variant.vit.1.knn-k-3",
              .model_name = "vit",
              .model_version = "1",
              .backbone = "vit_tiny",
              .attention = "knn:k=3",
              .weights_of_attention = "dense"}});
  }
  void End(const absl::Status& why) {
    asked_.Wait();
    progress_ = nullptr;
    served_ = nullptr;
    std::exchange(done_, nullptr)(why);
  }
  void AwaitCancelled() { cancelled_.Wait(); }

 private:
  Notification asked_, cancelled_;
  ServeRequest request_;
  CancellationPtr cancellation_;
  ProgressListener progress_;
  Served served_;
  Done done_;
};

}  // namespace fovea
