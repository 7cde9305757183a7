// The catalog in which small models with random weights are served, and variants of them.
#pragma once

#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/status.h"
#include "server/compare/serve/variant_catalog.h"
#include "tests/server/compare/served_models.h"
#include "tests/server/pipeline/pixel_request.h"

namespace fovea {

MATCHER_P2(Fails, code, reason, "") {
  *result_listener << arg.status();
  return arg.status().code() == code && ReasonOf(arg.status()) == reason;
}

inline constexpr char kKnn[] = "variant.classifier.1.knn-k-3";

class VariantCatalogTest : public ServedModelsTest {
 protected:
  ~VariantCatalogTest() override { variants_.reset(); }

  void SetUp() override {
    Serve("classifier", kClassifier);
    Start({});
  }
  void Start(const VariantCatalogOptions& options) {
    variants_.reset();
    variants_ = *VariantCatalog::Create(options, models_, Environment());
  }
  absl::StatusOr<std::unique_ptr<VariantCatalog::Lease>> ServeVariant(
      const std::string& attention, const std::string& model = "classifier") {
    return variants_->Serve({.model_name = model, .attention = attention}, cancellation_);
  }
  // The logits of a grey picture, as bytes.
  static absl::StatusOr<std::string> Ask(const std::shared_ptr<const ServingModel>& model) {
    std::promise<absl::StatusOr<std::string>> promise;
    ServingModel::Infer(
        model, PixelRequest(1, 64, SteadyClock().Now()),
        [&](const absl::StatusOr<InferenceResponse>& response, const StageTimes&) {
          if (!response.ok()) return promise.set_value(response.status());
          promise.set_value(std::get<std::vector<OutputTensor>>(response->results)[0].data);
        });
    return promise.get_future().get();
  }
  absl::StatusOr<std::string> Ask(const std::string& name) {
    FOVEA_ASSIGN_OR_RETURN(const auto model, variants_->Acquire(name, ""));
    return Ask(model);
  }
  std::vector<std::string> Rows() const {
    std::vector<std::string> rows;
    for (const IndexEntry& entry : variants_->Index()) {
      rows.push_back(entry.name + ": " + entry.reason);
    }
    return rows;
  }
  void AwaitGone(const std::string& name) const {
    const auto there = [&] {
      for (const IndexEntry& entry : variants_->Index()) {
        if (entry.name == name) return true;
      }
      return false;
    };
    while (there()) std::this_thread::yield();
  }

  static constexpr char kClassifier[] =
      "backbone: \"vit_demo_patch8_64\" num_classes: 7 max_batch_size: 2 preprocessing { "
      "crop_fraction: 1.0 }";

  std::unique_ptr<VariantCatalog> variants_;
};

}  // namespace fovea
