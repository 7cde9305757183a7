#include "server/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "server/observe/resolution.h"
#include "server/scheduler/batch.h"
#include "server/scheduler/observer.h"
#include "tests/server/observe/exposition.h"

namespace fovea {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr ImageSize kSize = {224, 224};

ModelView View(std::string name = "cats", std::string attention = "dense") {
  ModelView view;
  view.name = std::move(name);
  view.version = "1";
  view.attention = std::move(attention);
  view.task = VisionTask::kClassification;
  view.backbone = "deit_tiny_patch16_224";
  view.precision = "FP32";
  view.device = "CPU";
  view.sizes = {kSize};
  view.memory_bytes = {{"weights", 1000}, {"activations_peak", 50}};
  return view;
}

// A request that spent so much time in each stage, in order.
StageTimes Spent(std::vector<Nanos> stages) {
  StageTimes times(100);
  Nanos now = 100;
  for (size_t i = 0; i < stages.size(); ++i) {
    now += stages[i];
    times.EndStage(static_cast<Stage>(i), now);
  }
  return times;
}

ModelMeter::BatchRun Ran(int images, int threads, Nanos gather, Nanos compute, Nanos scatter,
                         int64_t peak_bytes) {
  return {.images = images,
          .threads = threads,
          .gather = gather,
          .compute = compute,
          .scatter = scatter,
          .peak_bytes = peak_bytes,
          .size = kSize};
}

class MetricsTest : public ::testing::Test {
 protected:
  Exposition Scrape() const { return Exposition(metrics_.Text()); }
  ModelStatistics StatisticsOf(const std::string& name) const {
    const auto all = metrics_.Statistics(name, "");
    EXPECT_TRUE(all.ok() && all->size() == 1);
    return all->front();
  }

  Metrics metrics_;
};

TEST_F(MetricsTest, TheTextIsValidBeforeAnyModelIsLoaded) {
  const Exposition text = Scrape();
  EXPECT_EQ(text.type("fovea_requests_total"), "counter");
  EXPECT_THAT(text.Find("fovea_build_info"), SizeIs(1));
  EXPECT_EQ(text.Sum("fovea_inflight_requests"), 0);
}

TEST_F(MetricsTest, TheTextIsValidWithAwkwardValuesInIt) {
  ModelView view = View();
  view.backbone = "quote\" backslash\\ newline\n";
  const auto meter = metrics_.Meter(view);
  meter->OnAnswered(Protocol::kGrpc, absl::StatusCode::kOk, Spent({1, 2, 3, 4, 5, 6, 7}));
  meter->OnBatch({.images = 3, .threads = 2, .peak_bytes = 1 << 20, .size = kSize});
  const std::vector<Sample> info = Scrape().Find("fovea_model_info");
  ASSERT_THAT(info, SizeIs(1));
  EXPECT_EQ(info[0].labels.at("backbone"), "quote\\\" backslash\\\\ newline\\n");
}

TEST_F(MetricsTest, SeriesOfAModelCarryItsLabels) {
  const auto meter = metrics_.Meter(View());
  const Exposition text = Scrape();
  int found = 0;
  for (const Sample& sample : text.samples()) {
    if (sample.labels.count("model") == 0 || sample.labels.at("model") == "other") continue;
    ++found;
    EXPECT_EQ(sample.labels.at("model"), "cats");
    EXPECT_EQ(sample.labels.at("version"), "1");
    EXPECT_EQ(sample.labels.at("attention"), "dense");
    EXPECT_EQ(sample.labels.at("task"), "classification");
  }
  EXPECT_GT(found, 100);
}

TEST_F(MetricsTest, RequestsAreCountedByCode) {
  const auto meter = metrics_.Meter(View());
  for (int i = 0; i < 3; ++i) meter->OnAnswered(Protocol::kGrpc, absl::StatusCode::kOk, Spent({}));
  meter->OnAnswered(Protocol::kGrpc, absl::StatusCode::kUnavailable, Spent({}));
  const Exposition text = Scrape();
  const auto count = [&](const char* code) {
    return text.Sum("fovea_requests_total", {{"model", "cats"}, {"code", code}});
  };
  EXPECT_EQ(count("OK"), 3);
  EXPECT_EQ(count("UNAVAILABLE"), 1);
  EXPECT_EQ(count("INTERNAL"), 0);
  EXPECT_THAT(text.Find("fovea_requests_total", {{"model", "cats"}}), SizeIs(2 * 17));
}

TEST_F(MetricsTest, ProtocolsAreToldApart) {
  const auto meter = metrics_.Meter(View());
  meter->OnAnswered(Protocol::kHttp, absl::StatusCode::kOk, Spent({}));
  const Exposition text = Scrape();
  const auto sum = [&](const char* family, const char* protocol) {
    return text.Sum(family, {{"model", "cats"}, {"protocol", protocol}});
  };
  EXPECT_EQ(sum("fovea_requests_total", "http"), 1);
  EXPECT_EQ(sum("fovea_requests_total", "grpc"), 0);
  EXPECT_EQ(sum("fovea_request_duration_seconds_count", "http"), 1);
  EXPECT_EQ(sum("fovea_request_duration_seconds_count", "grpc"), 0);
}

TEST_F(MetricsTest, EachCodeHasItsOwnName) {
  const auto meter = metrics_.Meter(View());
  for (int code = 0; code < 17; ++code) {
    const auto value = static_cast<absl::StatusCode>(code);
    meter->OnAnswered(Protocol::kGrpc, value, Spent({}));
    EXPECT_EQ(Scrape().Sum("fovea_requests_total",
                           {{"model", "cats"}, {"code", absl::StatusCodeToString(value)}}),
              1)
        << code;
  }
}

TEST_F(MetricsTest, TheStagesAddUpToTheRequests) {
  const auto meter = metrics_.Meter(View());
  for (int i = 1; i <= 100; ++i) {
    meter->OnAnswered(Protocol::kGrpc, i % 3 ? absl::StatusCode::kOk : absl::StatusCode::kInternal,
                      Spent({i * 1'000, i * 2'000, i * 3'000, i * 50'000, i * 700'000, i, i * 10}));
  }
  const Exposition text = Scrape();
  EXPECT_NEAR(text.Sum("fovea_stage_duration_seconds_sum"),
              text.Sum("fovea_request_duration_seconds_sum"), 1e-9);
  EXPECT_NEAR(text.Sum("fovea_stage_duration_seconds_sum", {{"stage", "compute"}}), 5050 * 700e-6,
              1e-9);
}

// Of a histogram's first series with such labels, without the last.
std::vector<double> Bounds(const Exposition& text, const std::string& name,
                           const std::map<std::string, std::string>& labels) {
  std::vector<double> bounds;
  for (const Sample& bucket : text.Find(name + "_bucket", labels)) {
    if (bucket.labels.at("le") != "+Inf") bounds.push_back(std::stod(bucket.labels.at("le")));
  }
  return bounds;
}

TEST_F(MetricsTest, BucketsOfTimesAreFineEnoughForAQuantile) {
  const auto meter = metrics_.Meter(View());
  const Exposition text = Scrape();
  const std::vector<double> request = Bounds(text, "fovea_request_duration_seconds",
                                             {{"protocol", "grpc"}}),
                            stage =
                                Bounds(text, "fovea_stage_duration_seconds", {{"stage", "queue"}}),
                            batch = Bounds(text, "fovea_batch_duration_seconds", {});
  EXPECT_DOUBLE_EQ(request.front(), 0.0005);
  EXPECT_DOUBLE_EQ(stage.front(), 0.0001);
  EXPECT_EQ(batch, request);
  for (const auto& bounds : {request, stage}) {
    EXPECT_GE(bounds.back(), 8);
    for (size_t i = 1; i < bounds.size(); ++i) {
      EXPECT_GT(bounds[i] / bounds[i - 1], 1.18);
      EXPECT_LE(bounds[i] / bounds[i - 1], 1.19);
    }
  }
}

// docs/operations/metrics.md says how many.
TEST_F(MetricsTest, AModelAddsItsSeries) {
  const size_t before = Scrape().samples().size();
  const auto meter = metrics_.Meter(View());
  EXPECT_EQ(Scrape().samples().size() - before, 768);
}

TEST_F(MetricsTest, AFurtherResolutionAddsItsSeriesAndSizesThatAreAlikeShareThem) {
  const size_t before = Scrape().samples().size();
  ModelView view = View();
  view.sizes = {kSize, {384, 384}, {512, 288}};
  const auto meter = metrics_.Meter(view);
  EXPECT_EQ(Scrape().samples().size() - before, 768 + 79);
  meter->OnBatch({.images = 1, .size = kSize});
  meter->OnBatch({.images = 3, .compute = 2 * kSecond, .peak_bytes = 5, .size = {384, 384}});
  meter->OnBatch({.images = 2, .gather = kSecond, .peak_bytes = 6, .size = {512, 288}});
  const Exposition text = Scrape();
  const std::map<std::string, std::string> larger = {{"resolution", "384"}};
  EXPECT_EQ(text.Sum("fovea_images_total", larger), 5);
  EXPECT_EQ(text.Sum("fovea_images_total", {{"resolution", "224"}}), 1);
  EXPECT_EQ(text.Sum("fovea_batch_duration_seconds_sum", larger), 3);
  EXPECT_EQ(text.Sum("fovea_batch_peak_memory_bytes_sum", larger), 11);
  // Those that run the model for a last time are still counted after a reload without that size.
  const auto fresh = metrics_.Meter(View());
  meter->OnBatch({.images = 1, .size = {384, 384}});
  EXPECT_EQ(Scrape().Sum("fovea_images_total", larger), 6);
}

TEST(ResolutionTest, IsTheSideOfASquareWithAsManyPixelsOrTheNextLarger) {
  EXPECT_EQ(ResolutionLabel({224, 224}), "224");
  EXPECT_EQ(ResolutionLabel({225, 224}), "256");
  EXPECT_EQ(ResolutionLabel({112, 448}), "224");
  EXPECT_EQ(ResolutionLabel({1, 1}), "32");
  EXPECT_EQ(ResolutionLabel({4096, 4096}), "4096");
  EXPECT_EQ(ResolutionLabel({100'000, 100'000}), "larger");
}

TEST_F(MetricsTest, WhatAModelCostsIsCountedInSecondsOfACore) {
  const auto meter = metrics_.Meter(View());
  meter->OnPass("CPU", kSecond, 4);
  meter->OnImagingTime(kSecond / 2);
  const Exposition text = Scrape();
  EXPECT_EQ(text.Sum("fovea_cpu_seconds_total", {{"stage", "compute"}}), 4);
  EXPECT_EQ(text.Sum("fovea_cpu_seconds_total", {{"stage", "imaging"}}), 0.5);
  EXPECT_THAT(text.Find("fovea_gpu_seconds_total"), IsEmpty());
  EXPECT_THAT(text.Find("fovea_gpu_step_seconds_total"), IsEmpty());
}

TEST_F(MetricsTest, WhatAModelOnAGpuCostsIsCountedInItsSeconds) {
  ModelView view = View();
  view.device = "GPU";
  const auto meter = metrics_.Meter(view);
  meter->OnPass("GPU", 2 * kSecond, 4);
  meter->OnBatch({.images = 1,
                  .device_times = DeviceTimes{.h2d = kSecond, .kernels = 3 * kSecond, .d2h = 0},
                  .size = kSize});
  const Exposition text = Scrape();
  EXPECT_EQ(text.Sum("fovea_gpu_seconds_total", {{"device", "GPU"}}), 2);
  EXPECT_EQ(text.Sum("fovea_gpu_step_seconds_total", {{"step", "h2d"}}), 1);
  EXPECT_EQ(text.Sum("fovea_gpu_step_seconds_total", {{"step", "kernels"}}), 3);
  EXPECT_EQ(text.Sum("fovea_gpu_step_seconds_total", {{"step", "d2h"}}), 0);
  EXPECT_EQ(text.Sum("fovea_cpu_seconds_total"), 0);
  EXPECT_EQ(text.Sum("fovea_model_memory_bytes", {{"device", "GPU"}}), 1050);
}

TEST_F(MetricsTest, WhatThisServerHasOfGpusIsReadAtEachScrape) {
  EXPECT_THAT(Scrape().Find("fovea_gpu_allocator_bytes"), IsEmpty());
  int64_t allocated = 5;
  metrics_.WatchGpus([&] {
    return std::vector<GpuAllocator>{{.uuid = "GPU-a", .kinds = {{"allocated", allocated}}},
                                     {.uuid = "GPU-b", .kinds = {{"reserved", 8}}}};
  });
  EXPECT_EQ(Scrape().Sum("fovea_gpu_allocator_bytes", {{"gpu", "GPU-a"}, {"kind", "allocated"}}),
            5);
  allocated = 7;
  const Exposition text = Scrape();
  EXPECT_EQ(text.Sum("fovea_gpu_allocator_bytes", {{"gpu", "GPU-a"}}), 7);
  EXPECT_EQ(text.Sum("fovea_gpu_allocator_bytes", {{"gpu", "GPU-b"}, {"kind", "reserved"}}), 8);
}

TEST_F(MetricsTest, PriorityLevelsHaveSeriesOfTheirOwnAlsoAfterAReloadThatAddsSome) {
  ModelView view = View();
  view.priority_levels = 2;
  const auto meter = metrics_.Meter(view);
  meter->OnPriorityDepth(0, 3);
  meter->OnPriorityRun(1);
  meter->OnPriorityRejected(1, "full");
  view.priority_levels = 3;
  ASSERT_EQ(metrics_.Meter(view), meter);
  meter->OnPriorityRun(2);
  const Exposition text = Scrape();
  EXPECT_EQ(text.Sum("fovea_priority_queue_depth", {{"priority", "1"}}), 3);
  EXPECT_EQ(text.Sum("fovea_priority_run_total", {{"priority", "2"}}), 1);
  EXPECT_EQ(text.Sum("fovea_priority_run_total", {{"priority", "3"}}), 1);
  EXPECT_EQ(text.Sum("fovea_priority_rejected_total", {{"priority", "2"}, {"reason", "full"}}), 1);
  EXPECT_THAT(text.Find("fovea_priority_queue_depth"), SizeIs(3));
}

TEST_F(MetricsTest, AModelWithoutPrioritiesHasNoSeriesOfThem) {
  const auto meter = metrics_.Meter(View());
  EXPECT_THAT(Scrape().Find("fovea_priority_queue_depth"), IsEmpty());
  meter->OnDelayed(2);
  EXPECT_EQ(Scrape().Sum("fovea_queue_delayed_total"), 2);
}

TEST_F(MetricsTest, PaddingIsToldOfModelsThatFitPictures) {
  metrics_.Meter(View())->OnBatch({.images = 1, .padding = 0, .size = kSize});
  EXPECT_THAT(Scrape().Find("fovea_batch_padding_ratio_count"), IsEmpty());
  ModelView fits = View();
  fits.name = "detector";
  fits.fits_pictures = true;
  const auto meter = metrics_.Meter(fits);
  meter->OnBatch({.images = 1, .padding = 0.25, .size = kSize});
  meter->OnBatch({.images = 2, .padding = 0.5, .size = kSize});
  const Exposition text = Scrape();
  EXPECT_EQ(text.Sum("fovea_batch_padding_ratio_count"), 2);
  EXPECT_EQ(text.Sum("fovea_batch_padding_ratio_sum"), 0.75);
}

TEST_F(MetricsTest, BatchesAreCountedBySizeAndThreadsAndWithTheirMemory) {
  const auto meter = metrics_.Meter(View());
  meter->OnBatch(Ran(1, 2, 10, 20, 30, 1 << 20));
  meter->OnBatch(Ran(8, 1, 10, 20, 30, 1 << 21));
  const Exposition text = Scrape();
  EXPECT_EQ(text.Sum("fovea_images_total"), 9);
  EXPECT_EQ(text.Sum("fovea_batch_size_count"), 2);
  EXPECT_EQ(text.Sum("fovea_batch_size_bucket", {{"le", "4"}}), 1);
  EXPECT_EQ(text.Sum("fovea_batch_threads_sum"), 3);
  EXPECT_EQ(text.Sum("fovea_batch_threads_bucket", {{"le", "1"}}), 1);
  EXPECT_EQ(text.Sum("fovea_batch_peak_memory_bytes_sum"), 3 << 20);
}

TEST_F(MetricsTest, ReloadsOfCredentialsAreThereBeforeTheFirst) {
  metrics_.WatchCredentials("tls");
  EXPECT_THAT(Scrape().Find("fovea_credential_reloads_total"), SizeIs(2));
  metrics_.OnCredentialReload("tls", false);
  EXPECT_EQ(Scrape().Sum("fovea_credential_reloads_total", {{"result", "refused"}}), 1);
  EXPECT_THAT(Scrape().Find("fovea_credential_reloads_total"), SizeIs(2));
}

// The scheduler names its reasons; a reason without a series would end the process.
TEST_F(MetricsTest, CountsWhatBecameOfWorkThatNobodyWaitedFor) {
  const auto meter = metrics_.Meter(View());
  meter->OnCancelledWork("compute", "saved", 3 * kSecond / 2);
  meter->OnCancelledWork("compute", "saved", kSecond / 2);
  meter->OnCancelledWork("compute", "wasted", kSecond / 4);
  const auto seconds = [this](const std::string& stage, const std::string& outcome) {
    return Scrape().Sum("fovea_cancelled_work_seconds_total",
                        {{"stage", stage}, {"outcome", outcome}});
  };
  EXPECT_EQ(seconds("compute", "saved"), 2);
  EXPECT_EQ(seconds("compute", "wasted"), 0.25);
  EXPECT_EQ(seconds("imaging", "saved"), 0);
  meter->OnCancelledWork("imaging", "wasted", kSecond / 8);
  EXPECT_EQ(seconds("imaging", "wasted"), 0.125);
}

TEST_F(MetricsTest, EveryReasonOfTheSchedulerHasASeries) {
  const auto meter = metrics_.Meter(View());
  const Rejection rejections[] = {Rejection::kFull, Rejection::kDeadline, Rejection::kCancelled,
                                  Rejection::kDraining};
  for (const Rejection reason : rejections) {
    meter->OnRejected(RejectionName(reason));
    EXPECT_EQ(Scrape().Sum("fovea_queue_rejected_total",
                           {{"reason", std::string(RejectionName(reason))}}),
              1);
  }
  const CloseReason reasons[] = {CloseReason::kFull,     CloseReason::kPreferred,
                                 CloseReason::kDeadline, CloseReason::kDelay,
                                 CloseReason::kIdle,     CloseReason::kDrain};
  for (const CloseReason reason : reasons) {
    meter->OnBatchClosed(CloseReasonName(reason));
    EXPECT_EQ(Scrape().Sum("fovea_batch_close_reason_total",
                           {{"reason", std::string(CloseReasonName(reason))}}),
              1);
  }
  EXPECT_THAT(Scrape().Find("fovea_queue_rejected_total"), SizeIs(std::size(rejections)));
  EXPECT_THAT(Scrape().Find("fovea_batch_close_reason_total"), SizeIs(std::size(reasons)));
}

// docs/faults.md, row 47.
TEST_F(MetricsTest, HostileNamesAddNoSeries) {
  const auto meter = metrics_.Meter(View());
  const size_t before = Scrape().samples().size();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(metrics_.Statistics("nobody_" + std::to_string(i), "1").ok());
    metrics_.OnUnmatched(Protocol::kGrpc,
                         i % 2 ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Scrape().samples().size(), before);
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("nobody_")));
  EXPECT_EQ(Scrape().Sum("fovea_requests_total", {{"model", "other"}, {"code", "NOT_FOUND"}}), 500);
}

TEST_F(MetricsTest, AnUnloadedModelLeavesNoSeries) {
  const size_t before = Scrape().samples().size();
  auto meter = metrics_.Meter(View());
  EXPECT_TRUE(metrics_.Statistics("cats", "1").ok());
  meter.reset();
  EXPECT_FALSE(metrics_.Statistics("cats", "1").ok());
  EXPECT_EQ(Scrape().samples().size(), before);
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("cats")));
}

TEST_F(MetricsTest, AReloadGoesOnCountingAndTellsTheNewFacts) {
  auto old = metrics_.Meter(View());
  old->OnAnswered(Protocol::kGrpc, absl::StatusCode::kOk, Spent({1000}));
  ModelView changed = View();
  changed.precision = "BF16";
  changed.memory_bytes = {{"weights", 500}};
  const auto fresh = metrics_.Meter(changed);
  old.reset();
  fresh->OnAnswered(Protocol::kGrpc, absl::StatusCode::kOk, Spent({1000}));
  const Exposition text = Scrape();
  EXPECT_EQ(text.Sum("fovea_requests_total", {{"code", "OK"}}), 2);
  EXPECT_EQ(text.Sum("fovea_model_memory_bytes"), 500);
  const std::vector<Sample> info = text.Find("fovea_model_info");
  ASSERT_THAT(info, SizeIs(1));
  EXPECT_EQ(info[0].labels.at("precision"), "BF16");
  EXPECT_EQ(StatisticsOf("cats").success.count, 2);
  EXPECT_EQ(StatisticsOf("cats").memory_bytes.at("weights"), 500);
}

TEST_F(MetricsTest, AReloadWithAnotherAttentionHasItsOwnSeriesAndTheSameStatistics) {
  auto dense = metrics_.Meter(View("cats", "dense"));
  dense->OnAnswered(Protocol::kGrpc, absl::StatusCode::kOk, Spent({1000}));
  const auto knn = metrics_.Meter(View("cats", "knn:k=9"));
  // A request that the old version still had.
  dense->OnAnswered(Protocol::kGrpc, absl::StatusCode::kOk, Spent({1000}));
  knn->OnAnswered(Protocol::kGrpc, absl::StatusCode::kOk, Spent({1000}));
  EXPECT_EQ(Scrape().Sum("fovea_requests_total", {{"attention", "dense"}}), 2);
  EXPECT_EQ(Scrape().Sum("fovea_requests_total", {{"attention", "knn:k=9"}}), 1);
  EXPECT_EQ(StatisticsOf("cats").success.count, 3);
  dense.reset();
  EXPECT_THAT(Scrape().Find("fovea_requests_total", {{"attention", "dense"}}), IsEmpty());
  EXPECT_EQ(StatisticsOf("cats").success.count, 3);
}

TEST_F(MetricsTest, AMeterMadeWhileItsLikeIsDestroyedKeepsItsSeries) {
  for (int round = 0; round < 100; ++round) {
    auto old = metrics_.Meter(View());
    std::atomic<bool> go = false;
    std::thread unloader([&] {
      while (!go) std::this_thread::yield();
      old.reset();
    });
    go = true;
    const auto fresh = metrics_.Meter(View());
    unloader.join();
    fresh->OnQueueDepth(7);
    ASSERT_THAT(metrics_.Text(), ContainsRegex("\nfovea_queue_depth\\{[^}]*\\} 7\n")) << round;
  }
}

TEST_F(MetricsTest, StatisticsFollowTriton) {
  const auto meter = metrics_.Meter(View());
  meter->OnAnswered(Protocol::kGrpc, absl::StatusCode::kOk,
                    Spent({1, 20, 300, 4000, 50'000, 600'000, 7'000'000}));
  meter->OnAnswered(Protocol::kGrpc, absl::StatusCode::kInternal, Spent({5}));
  const auto wall = [] {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count());
  };
  const uint64_t before = wall();
  meter->OnBatch(Ran(4, 2, 10, 20, 30, 0));
  meter->OnBatch(Ran(4, 2, 10, 20, 30, 0));
  meter->OnBatch(Ran(1, 2, 1, 2, 3, 0));
  const ModelStatistics statistics = StatisticsOf("cats");
  EXPECT_EQ(statistics.name, "cats");
  EXPECT_EQ(statistics.version, "1");
  EXPECT_EQ(statistics.success.count, 1);
  EXPECT_EQ(statistics.success.nanoseconds, 7'654'321);
  EXPECT_EQ(statistics.fail.count, 1);
  EXPECT_EQ(statistics.fail.nanoseconds, 5);
  EXPECT_EQ(statistics.queue.nanoseconds, 4000);
  EXPECT_EQ(statistics.compute_input.nanoseconds, 321);
  EXPECT_EQ(statistics.compute_infer.nanoseconds, 50'000);
  EXPECT_EQ(statistics.compute_output.nanoseconds, 7'600'000);
  EXPECT_EQ(statistics.compute_output.count, 1);
  EXPECT_EQ(statistics.inference_count, 9);
  EXPECT_EQ(statistics.execution_count, 3);
  ASSERT_THAT(statistics.batches, SizeIs(2));
  EXPECT_EQ(statistics.batches.at(4).compute_infer.count, 2);
  EXPECT_EQ(statistics.batches.at(4).compute_infer.nanoseconds, 40);
  EXPECT_EQ(statistics.batches.at(1).compute_output.nanoseconds, 3);
  EXPECT_GE(statistics.last_inference_ms, before);
  EXPECT_LE(statistics.last_inference_ms, wall());
}

TEST_F(MetricsTest, StatisticsAreChosenByNameAndVersion) {
  EXPECT_THAT(*metrics_.Statistics("", ""), IsEmpty());
  ModelView second = View("cats");
  second.version = "2";
  const auto cats = metrics_.Meter(View("cats")), cats2 = metrics_.Meter(second),
             dogs = metrics_.Meter(View("dogs"));
  EXPECT_THAT(*metrics_.Statistics("", ""), SizeIs(3));
  EXPECT_THAT(*metrics_.Statistics("cats", ""), SizeIs(2));
  EXPECT_THAT(*metrics_.Statistics("cats", "2"), SizeIs(1));
  EXPECT_EQ(metrics_.Statistics("cats", "3").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(metrics_.Statistics("mice", "").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(MetricsTest, TheProcessIsDescribed) {
  const Exposition before = Scrape();
  EXPECT_GT(before.Sum("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(before.Sum("process_virtual_memory_bytes"),
            before.Sum("process_resident_memory_bytes"));
  EXPECT_GE(before.Sum("process_open_fds"), 3);
  EXPECT_GT(before.Sum("process_max_fds"), before.Sum("process_open_fds"));
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_LT(before.Sum("process_start_time_seconds"), now + 1);
  EXPECT_GT(before.Sum("process_start_time_seconds"), now - 3600);
  // Burns processor time until it is seen (a tick is 10 ms).
  volatile double sink = 0;
  while (Scrape().Sum("process_cpu_seconds_total") <= before.Sum("process_cpu_seconds_total")) {
    for (int i = 0; i < 1'000'000; ++i) sink = sink + i;
  }
}

}  // namespace
}  // namespace fovea
