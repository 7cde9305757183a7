#include "server/compare/serve/variant_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/core/testing/notification.h"
#include "server/repository/model_repository.h"
#include "tests/model_zoo/folder/temp_repository.h"
#include "tests/server/compare/serve/variant_catalog_fixture.h"

namespace fovea {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(VariantNameTest, IsAModelsNameAndTheSameEachTime) {
  EXPECT_EQ(VariantName("shapes", "1", "knn:k=0.5"), "variant.shapes.1.knn-k-0.5");
  EXPECT_EQ(VariantName("a_b", "12", "conv|cska/dense,window=7@2"),
            "variant.a_b.12.conv-cska-dense-window-7-2-d640a3f52a78e24d");
  EXPECT_NE(VariantName("a", "1", "knn|dense"), VariantName("a", "1", "knn,dense"));
  EXPECT_NE(VariantName("a", "1", "\n"), VariantName("a", "1", "-"));
  const std::string long_name(128, 'm');
  const std::string one = VariantName(long_name, "1", "knn:k=3");
  const std::string other = VariantName(long_name, "1", "knn:k=4");
  EXPECT_EQ(one.size(), 128u);
  EXPECT_EQ(one, VariantName(long_name, "1", "knn:k=3"));
  EXPECT_NE(one, other);
}

TEST_F(VariantCatalogTest, AVariantIsAModelUntilItsLeaseGoes) {
  auto lease = ServeVariant("knn:k=3");
  ASSERT_TRUE(lease.ok()) << lease.status();
  const ServedVariant& told = (*lease)->variant();
  EXPECT_EQ(told.served_as, kKnn);
  EXPECT_EQ(told.model_name, "classifier");
  EXPECT_EQ(told.model_version, "1");
  EXPECT_EQ(told.attention, "knn:k=3");
  EXPECT_EQ(told.weights_of_attention, "dense");
  const auto view = *variants_->Find(kKnn, "");
  EXPECT_EQ(view->name, kKnn);
  EXPECT_EQ(view->attention, "knn:k=3");
  EXPECT_THAT(view->served_versions, ElementsAre("1"));
  EXPECT_EQ(view->properties.at("fovea.variant_of"), "classifier/1");
  EXPECT_EQ(view->properties.at("fovea.weights_of_attention"), "dense");
  EXPECT_EQ(view->properties.at("fovea.not_fine_tuned"), "true");
  EXPECT_THAT(Rows(), ElementsAre(HasSubstr("variant.classifier.1.knn-k-3: a variant of classifier "
                                            "version 1 with knn:k=3: same weights as dense, not "
                                            "fine-tuned")));
  const auto own = Ask("classifier"), other = Ask(kKnn);
  ASSERT_TRUE(own.ok() && other.ok()) << own.status() << other.status();
  EXPECT_NE(*own, *other);
  EXPECT_THAT(variants_->Find(kKnn, "2"), Fails(absl::StatusCode::kNotFound, "model.not_found"));

  // Who holds it goes on; others do not find it.
  auto held = *variants_->Acquire(kKnn, "1");
  lease->reset();
  EXPECT_THAT(variants_->Find(kKnn, ""), Fails(absl::StatusCode::kNotFound, "model.not_found"));
  EXPECT_THAT(Rows(), ElementsAre(HasSubstr("its experiment has ended")));
  EXPECT_EQ(*Ask(held), *other);
  held.reset();
  AwaitGone(kKnn);
}

TEST_F(VariantCatalogTest, AllKeysAnswerAsTheModelDoes) {
  // It has 65 tokens: the weights are the model's.
  auto lease = ServeVariant("knn:k=65");
  ASSERT_TRUE(lease.ok()) << lease.status();
  const std::string own = *Ask("classifier"), all = *Ask((*lease)->variant().served_as);
  ASSERT_EQ(own.size(), all.size());
  const auto* a = reinterpret_cast<const float*>(own.data());
  const auto* b = reinterpret_cast<const float*>(all.data());
  for (size_t i = 0; i < own.size() / sizeof(float); ++i) EXPECT_NEAR(a[i], b[i], 1e-4);
}

TEST_F(VariantCatalogTest, TheModelsOwnAttentionIsTheModel) {
  for (const char* attention : {"", "dense"}) {
    auto lease = ServeVariant(attention);
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->variant().served_as, "classifier");
    EXPECT_EQ((*lease)->variant().weights_of_attention, "");
    EXPECT_TRUE(Rows().empty());
  }
}

TEST_F(VariantCatalogTest, OneIsSharedByAllWhoAskForIt) {
  auto first = ServeVariant("knn:k=3"), second = ServeVariant("knn:k=3");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*variants_->Acquire(kKnn, ""), *variants_->Acquire(kKnn, ""));
  EXPECT_EQ(Rows().size(), 1u);
  first->reset();
  EXPECT_TRUE(Ask(kKnn).ok());
  second->reset();
  EXPECT_FALSE(Ask(kKnn).ok());
  // And once more, under the same name.
  auto third = ServeVariant("knn:k=3");
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_TRUE(Ask(kKnn).ok());
}

TEST_F(VariantCatalogTest, OneOfAnEarlierLoadIsNotTakenForTheModels) {
  auto lease = ServeVariant("knn:k=3");
  ASSERT_TRUE(lease.ok());
  Serve("classifier", kClassifier);  // once more
  EXPECT_THAT(ServeVariant("knn:k=3"), Fails(absl::StatusCode::kUnavailable, "serve.busy"));
  lease->reset();
  EXPECT_TRUE(ServeVariant("knn:k=3").ok());
}

TEST_F(VariantCatalogTest, ReadinessIsToldAsOfModels) {
  std::vector<std::string> heard;
  auto early = ServeVariant("knn:k=5");  // its end is heard, too
  variants_->OnReadinessChange([&](std::string_view name, std::string_view version, Readiness now) {
    heard.push_back(std::string(name) + "/" + std::string(version) +
                    (now == Readiness::kReady ? "+" : "-"));
  });
  ServeVariant("knn:k=3")->reset();
  const std::string name = kKnn;
  EXPECT_THAT(heard, ElementsAre("variant.classifier.1.knn-k-5/1+", name + "/1+", name + "/1-"));
}

// Row 91.
TEST_F(VariantCatalogTest, WhatCannotBeServedIsSaid) {
  EXPECT_THAT(ServeVariant("axial"),
              Fails(absl::StatusCode::kFailedPrecondition, "model.load_failed"));
  EXPECT_THAT(ServeVariant("k?nn"),
              Fails(absl::StatusCode::kFailedPrecondition, "model.load_failed"));
  EXPECT_THAT(ServeVariant("", "nobody"), Fails(absl::StatusCode::kNotFound, "model.not_found"));
  EXPECT_TRUE(Rows().empty());
}

// Row 91.
TEST_F(VariantCatalogTest, AVariantsNameCanBeNeitherLoadedNorUnloaded) {
  auto lease = ServeVariant("knn:k=3");
  const auto reserved = [](const absl::Status& status) {
    return absl::IsInvalidArgument(status) && ReasonOf(status) == "model.reserved_name";
  };
  EXPECT_TRUE(reserved(variants_->Load(kKnn, "")));
  EXPECT_TRUE(reserved(variants_->Unload(kKnn)));
  EXPECT_TRUE(reserved(variants_->LoadFiles("variant.any", "{}", {}, [] {})));
  EXPECT_TRUE(variants_->Load("classifier", "").ok());
  EXPECT_TRUE(variants_->Unload("classifier").ok());
  EXPECT_TRUE(Ask(kKnn).ok());
}

// Row 92.
TEST_F(VariantCatalogTest, TheirNumberIsBounded) {
  Start({.max_variants = 2});
  auto first = ServeVariant("knn:k=3"), second = ServeVariant("knn:k=4");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(ServeVariant("knn:k=5"), Fails(absl::StatusCode::kUnavailable, "serve.busy"));
  EXPECT_TRUE(ServeVariant("knn:k=4").ok()) << "it is served already";
  first->reset();
  EXPECT_TRUE(ServeVariant("knn:k=5").ok());
}

// Row 92.
TEST_F(VariantCatalogTest, TheirMemoryIsBounded) {
  Start({.max_bytes = 1000});
  EXPECT_THAT(ServeVariant("knn:k=3"),
              Fails(absl::StatusCode::kResourceExhausted, "serve.too_large"));
  Start({});
  int64_t bytes;
  {
    auto lease = ServeVariant("knn:k=3");
    ASSERT_TRUE(lease.ok());
    bytes = (*variants_->Find(kKnn, ""))->device_bytes[0];
  }
  Start({.max_bytes = bytes * 3 / 2});
  auto first = ServeVariant("knn:k=3");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(ServeVariant("knn:k=4"),
              Fails(absl::StatusCode::kResourceExhausted, "serve.too_large"));
  first->reset();
  AwaitGone(kKnn);
  EXPECT_TRUE(ServeVariant("knn:k=4").ok());
}

// Row 92.
TEST_F(VariantCatalogTest, ACancelledLoadLeavesNothing) {
  cancellation_->Cancel();
  EXPECT_FALSE(ServeVariant("knn:k=3").ok());
  EXPECT_TRUE(Rows().empty());
}

// Row 92.
TEST_F(VariantCatalogTest, ALoadThatTakesTooLongIsGivenUp) {
  Start({.max_load = 0});
  const auto lease = ServeVariant("knn:k=3");
  EXPECT_THAT(lease, Fails(absl::StatusCode::kUnavailable, "model.load_stopped"));
  EXPECT_THAT(lease.status().message(), HasSubstr("takes longer than"));
}

// Row 92.
TEST_F(VariantCatalogTest, WhoIsCancelledWaitsForNoRoom) {
  Start({.max_variants = 1});
  auto lease = ServeVariant("knn:k=3");
  ASSERT_TRUE(lease.ok());
  const auto held = *variants_->Acquire(kKnn, "");
  lease->reset();
  cancellation_->Cancel();
  EXPECT_THAT(ServeVariant("knn:k=4"), Fails(absl::StatusCode::kCancelled, "serve.cancelled"));
}

// Row 92.
TEST_F(VariantCatalogTest, WhoIsCancelledWaitsForNoOthersLoad) {
  Notification loads, go_on;
  ServedModel::Environment environment = Environment();
  environment.make_devices =
      [&](const LaneArrangement&,
          const LaneDeviceOptions&) -> absl::StatusOr<std::vector<std::unique_ptr<LaneDevice>>> {
    loads.Notify();
    go_on.Wait();
    return Unavailable("test.device", "there is none");
  };
  variants_.reset();
  variants_ = *VariantCatalog::Create({}, models_, environment);
  std::thread first(
      [this] { EXPECT_EQ(ReasonOf(ServeVariant("knn:k=3").status()), "test.device"); });
  loads.Wait();
  const auto cancelled = std::make_shared<Cancellation>();
  cancelled->Cancel();
  EXPECT_THAT(variants_->Serve({.model_name = "classifier", .attention = "knn:k=4"}, cancelled),
              Fails(absl::StatusCode::kCancelled, "serve.cancelled"));
  go_on.Notify();
  first.join();
}

// The bundled classifier, in a repository of its own.
TEST_F(ServedModelsTest, AVariantOfWeightsThatHaveChangedIsRefused) {
  namespace fs = std::filesystem;
  const TempRepository folder;
  fs::copy(fs::path(FOVEA_SOURCE_DIR) / "model_zoo/demo/shapes", folder / "shapes",
           fs::copy_options::recursive);
  class Nobody final : public RepositoryObserver {
    void OnLoad(const LoadReport&) override {}
    void OnCanary(const CanaryReport&) override {}
    void OnLost(std::string_view, int64_t, const absl::Status&) override {}
    void OnUnloaded(std::string_view, int64_t) override {}
    void OnUnreadableRepository(const absl::Status&) override {}
    void OnIgnoredFolder(std::string_view) override {}
  };
  Nobody observer;
  std::vector<std::unique_ptr<RepositoryFs>> folders;
  folders.push_back(MakeRepositoryFs(folder.root()));
  auto repository = *ModelRepository::Create(
      {}, std::move(folders),
      [&](const VersionToLoad& model) { return ServedModel::Create(model, Environment()); },
      observer);
  ASSERT_TRUE(repository->Start().ok());
  repository->WaitUntilTried();
  auto variants = *VariantCatalog::Create({}, *repository, Environment());
  const auto serve = [&] {
    return variants->Serve({.model_name = "shapes", .attention = "knn:k=9"}, cancellation_);
  };
  {
    const auto lease = serve();
    ASSERT_TRUE(lease.ok()) << lease.status();
    const auto view = *variants->Find((*lease)->variant().served_as, "");
    EXPECT_EQ(view->labels->size(), static_cast<size_t>(view->num_classes));
  }
  folder.Append("shapes/1/model.safetensors", "x");
  const auto refused = serve();
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(variants->Index(), testing::SizeIs(testing::Le(2u)));
}

}  // namespace
}  // namespace fovea
