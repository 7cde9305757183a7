// A model on a device that fails: behind the CPU's lanes, and behind those of a GPU.
#include "tests/server/executor/faulty_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/core/testing/notification.h"
#include "server/pipeline/inference_pipeline.h"
#include "server/pipeline/silent_observer.h"
#include "server/repository/model_repository.h"
#include "tests/model_zoo/folder/temp_repository.h"
#include "tests/server/eventually.h"
#include "tests/server/executor/fake_gpu.h"
#include "tests/server/pipeline/pixel_request.h"
#include "tests/server/scheduler/fake_task.h"

namespace fovea {
namespace {

using testing::HasSubstr;

constexpr int kSide = 64;

class FaultyDeviceTest : public testing::TestWithParam<bool> {
 protected:
  static bool OnGpu() { return GetParam(); }
  absl::Status Serve(const std::string& extra = "") {
    VersionToLoad parsed{.name = "model", .version = 1};
    parsed.on_lost = [this](const absl::Status&) { ++told_of_loss_; };
    auto spec = ParseModelSpec(
        "spec_version: 1 backbone: \"vit_demo_patch8_64\" random_weights { seed: 1 } "
        "max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 10000000 } " +
            extra,
        "model");
    FOVEA_RETURN_IF_ERROR(spec.status());
    parsed.spec = *std::move(spec);
    FOVEA_ASSIGN_OR_RETURN(auto created, ServedModel::Create(parsed, Environment()));
    model_ = std::static_pointer_cast<ServedModel>(created);
    return absl::OkStatus();
  }
  ServedModel::Environment Environment() {
    ServedModel::Environment environment{
        .scheduler = *scheduler_,
        .imaging = *imaging_,
        .clock = SteadyClock(),
        .observe = [](const auto&) { return std::make_unique<SilentObserver>(); },
        .make_devices = [this](const LaneArrangement& arrangement, const LaneDeviceOptions& options)
            -> absl::StatusOr<std::vector<std::unique_ptr<LaneDevice>>> {
          arranged_ = arrangement;
          std::vector<std::unique_ptr<LaneDevice>> devices;
          for (auto& device : MakeLaneDevices(arrangement, options)) {
            devices.push_back(std::make_unique<FaultyDevice>(faults_, std::move(device)));
          }
          return devices;
        },
        .on_gpu_lost = [this] { ++lost_gpus_; }};
    if (OnGpu()) {
      environment.gpus = gpus_;
      environment.gpu_scheduler = gpu_scheduler_.get();
    }
    return environment;
  }

  struct Answer {
    absl::StatusOr<InferenceResponse> response;
    StageTimes stages;
  };
  std::future<Answer> Send(int images, std::string id = "") {
    return SendTo(Handle(), images, std::move(id));
  }
  static std::future<Answer> SendTo(std::shared_ptr<const ServingModel> model, int images,
                                    std::string id = "") {
    auto request = PixelRequest(images, kSide, SteadyClock().Now());
    request->id = std::move(id);
    auto promise = std::make_shared<std::promise<Answer>>();
    ServingModel::Infer(std::move(model), std::move(request),
                        [promise](absl::StatusOr<InferenceResponse> response, StageTimes stages) {
                          promise->set_value({std::move(response), stages});
                        });
    return promise->get_future();
  }

  // Not an owner: a model may not be destroyed on a thread of its own queue, which the repository's
  // handles see to.
  std::shared_ptr<const ServingModel> Handle() const {
    return std::shared_ptr<const ServingModel>(std::shared_ptr<void>(), model_.get());
  }

  const std::shared_ptr<FaultyDeviceFaults> faults_ = std::make_shared<FaultyDeviceFaults>();
  const std::vector<std::shared_ptr<FakeGpuState>> gpu_states_ = [] {
    std::vector<std::shared_ptr<FakeGpuState>> states(4);
    for (auto& state : states) state = std::make_shared<FakeGpuState>();
    return states;
  }();
  const Gpus gpus_ = [this] {
    Gpus gpus;
    for (const auto& state : gpu_states_) {
      gpus.push_back(std::make_shared<FakeGpu>(state, static_cast<int>(gpus.size())));
    }
    return gpus;
  }();
  LaneArrangement arranged_;
  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::Create({.device_threads = 1}, SteadyClock());
  std::unique_ptr<Scheduler> gpu_scheduler_ =
      *Scheduler::Create({.device_threads = 1}, SteadyClock());
  std::unique_ptr<ImagingPool> imaging_ = *ImagingPool::Create({.threads = 1}, SteadyClock());
  std::atomic<int> told_of_loss_ = 0, lost_gpus_ = 0;
  std::shared_ptr<ServedModel> model_;
};

MATCHER_P2(Fails, code, reason, "") {
  *result_listener << arg.status();
  return arg.status().code() == code && ReasonOf(arg.status()) == reason;
}

INSTANTIATE_TEST_SUITE_P(, FaultyDeviceTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Gpu" : "Cpu"; });

TEST_P(FaultyDeviceTest, Row41OneThatIsLostWhileAModelLoadsIsToldOfOnce) {
  faults_->lost = true;
  const absl::Status loaded = Serve();
  EXPECT_EQ(ReasonOf(loaded), "device.lost") << loaded;
  EXPECT_EQ(lost_gpus_, 1);
}

TEST_P(FaultyDeviceTest, ServesAndSaysWhatItIs) {
  ASSERT_TRUE(Serve("instance_group { gpus: 3 kind: KIND_GPU }").ok() == OnGpu());
  if (!OnGpu()) return;
  EXPECT_THAT(arranged_.gpus, testing::ElementsAre(3));
  EXPECT_EQ(model_->view()->device, "GPU");
  const int warm_up = faults_->passes;
  EXPECT_TRUE(Send(4).get().response.ok());
  EXPECT_EQ(faults_->passes, warm_up + 1);
}

// Weights are on each; requests go to whichever is free.
TEST_P(FaultyDeviceTest, AModelOnSeveralGpusRunsABatchOnEach) {
  if (!OnGpu()) GTEST_SKIP() << "of GPUs";
  gpu_scheduler_ = *Scheduler::Create({.device_threads = 3}, SteadyClock());
  ASSERT_TRUE(Serve("instance_group { kind: KIND_GPU gpus: [0, 1, 3] count: 1 }").ok());
  const auto replays = [this] {
    std::vector<int> of_each;
    for (const auto& gpu : gpu_states_) of_each.push_back(gpu->replays);
    return of_each;
  };
  std::vector<int> expected = replays();  // of the warm-up
  EXPECT_EQ(expected[2], 0);
  for (const int gpu : {0, 1, 3}) ++expected[gpu];
  const int before = faults_->passes;
  faults_->paused = true;
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(Send(4));
  EXPECT_TRUE(Eventually([&] { return faults_->passes == before + 3; })) << "one after the other";
  faults_->paused = false;
  for (auto& answer : answers) EXPECT_TRUE(answer.get().response.ok());
  EXPECT_EQ(replays(), expected);
}

TEST_P(FaultyDeviceTest, TheReceiptSaysWhatAGpuDid) {
  ASSERT_TRUE(Serve().ok());
  const Answer answer = Send(4).get();
  ASSERT_TRUE(answer.response.ok());
  const auto& times = answer.response->receipt.device_times;
  ASSERT_EQ(times.has_value(), OnGpu());
  if (times) {
    EXPECT_GT(times->kernels, 0);
    EXPECT_LE(times->h2d + times->kernels + times->d2h, answer.stages[Stage::kCompute]);
  }
}

// The CPU's scheduler has one thread, which a model of its own has.
TEST_P(FaultyDeviceTest, WhatRunsOnTheCpuHoldsUpNoGpu) {
  ASSERT_TRUE(Serve().ok());
  Notification running, go_on;
  const auto busy = *scheduler_->AddModel({}, [&](std::unique_ptr<Batch> batch) {
    running.Notify();
    go_on.Wait();
    for (auto& task : batch->tasks) RecordOf(*task).Run();
    return RunOutcome::kWhole;
  });
  ModelQueue::Enqueue(*busy->Reserve({}),
                      std::make_unique<FakeTask>(std::make_shared<TaskRecord>()));
  running.Wait();
  const auto answered = Send(4);
  const auto most = std::chrono::milliseconds(OnGpu() ? 10'000 : 100);
  EXPECT_EQ(answered.wait_for(most) == std::future_status::ready, OnGpu());
  go_on.Notify();
  answered.wait();
}

TEST_P(FaultyDeviceTest, ADelayIsTimeOfTheComputeStage) {
  ASSERT_TRUE(Serve().ok());
  faults_->delay_ms = 50;
  const Answer answer = Send(4).get();
  ASSERT_TRUE(answer.response.ok()) << answer.response.status();
  EXPECT_GE(answer.stages[Stage::kCompute], 50 * kMillisecond);
}

// By which it gives back what passes hold (cpu_lane_memory_test).
TEST_P(FaultyDeviceTest, HearsOfAThreadThatHasHadNothingToRunForASecond) {
  ASSERT_TRUE(Serve().ok());
  ASSERT_TRUE(Send(4).get().response.ok());
  EXPECT_TRUE(Eventually([&] { return faults_->idle_calls > 0; }));
}

TEST_P(FaultyDeviceTest, ABatchThatItHasNoMemoryForIsRunInHalves) {
  ASSERT_TRUE(Serve().ok());
  faults_->most_images = 2;
  const int before = faults_->passes;
  std::future<Answer> first = Send(2), second = Send(2);  // one batch
  EXPECT_EQ(first.get().response->receipt.batch_size, 2);
  EXPECT_EQ(second.get().response->receipt.batch_size, 2);
  EXPECT_EQ(faults_->passes, before + 3);
}

TEST_P(FaultyDeviceTest, AFailedPassFailsItsRequestAndNothingElse) {
  ASSERT_TRUE(Serve().ok());
  faults_->failures = 1;
  const Answer failed = Send(4).get();
  EXPECT_EQ(failed.response.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReasonOf(failed.response.status()), "executor.failed");
  EXPECT_TRUE(Send(4).get().response.ok());
}

TEST_P(FaultyDeviceTest, TheLineAboutAFailedPassNamesItsRequests) {
  ASSERT_TRUE(Serve().ok());
  const auto line_of = [&](const std::vector<std::string>& ids) {
    faults_->failures = 1;
    testing::internal::CaptureStdout();
    std::vector<std::future<Answer>> answers;  // of one batch of four images
    for (const std::string& id : ids) answers.push_back(Send(4 / static_cast<int>(ids.size()), id));
    for (std::future<Answer>& answer : answers) answer.wait();
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(line_of({"a\nb"}), HasSubstr("fallen off the bus"));
  EXPECT_THAT(line_of({"a\nb"}), HasSubstr(" (the model model, version 1; requests 'a\\nb')\n"));
  EXPECT_THAT(line_of({"", "x", "", std::string(1000, 'y')}),
              HasSubstr("; requests 'x', '" + std::string(64, 'y') + "...' and 2 more)\n"));
  EXPECT_THAT(line_of({"", ""}), HasSubstr("; requests without an id: 2)\n"));
}

TEST_P(FaultyDeviceTest, AModelThatCannotBeWarmedUpOnItIsNotLoaded) {
  faults_->failures = 1;
  EXPECT_EQ(ReasonOf(Serve()), "model.warm_up_failed");
}

TEST_P(FaultyDeviceTest, Row41WhatWaitsForALostDeviceFailsAndTheDeviceIsNotAskedAgain) {
  ASSERT_TRUE(Serve().ok());
  ASSERT_TRUE(Send(4).get().response.ok());
  faults_->lost = true;
  const int before = faults_->passes;
  std::vector<std::future<Answer>> waiting;
  for (int i = 0; i < 8; ++i) waiting.push_back(Send(2));  // four batches
  for (auto& one : waiting) {
    EXPECT_THAT(one.get().response, Fails(absl::StatusCode::kUnavailable, "device.lost"));
  }
  EXPECT_EQ(faults_->passes, before + 1);
  faults_->lost = false;  // what a pass left behind is not to be trusted
  EXPECT_THAT(Send(4).get().response, Fails(absl::StatusCode::kUnavailable, "device.lost"));
  EXPECT_EQ(faults_->passes, before + 1);
  model_.reset();
  EXPECT_EQ(told_of_loss_, 1);
  EXPECT_EQ(lost_gpus_, 1);
}

class IgnoringObserver final : public RepositoryObserver {
 public:
  void OnLoad(const LoadReport&) override {}
  void OnCanary(const CanaryReport&) override {}
  void OnLost(std::string_view, int64_t, const absl::Status&) override {}
  void OnUnloaded(std::string_view, int64_t) override {}
  void OnUnreadableRepository(const absl::Status&) override {}
  void OnIgnoredFolder(std::string_view) override {}
};

TEST_P(FaultyDeviceTest, Row41AVersionWhoseDeviceIsLostLeavesServiceUntilItIsLoadedAgain) {
  TempRepository disk;
  disk.Write("model/model.textproto",
             "spec_version: 1 backbone: \"vit_demo_patch8_64\" random_weights { seed: 1 } "
             "max_batch_size: 4");
  std::filesystem::create_directory(disk / "model/1");
  IgnoringObserver observer;
  std::vector<std::unique_ptr<RepositoryFs>> files;
  files.push_back(MakeRepositoryFs(disk.root()));
  auto created = ModelRepository::Create(
      {.control = ModelControl::kExplicit, .load_models = {"model"}}, std::move(files),
      [this](const VersionToLoad& model) { return ServedModel::Create(model, Environment()); },
      observer);
  ASSERT_TRUE(created.ok()) << created.status();
  std::unique_ptr<ModelRepository> repository = *std::move(created);
  std::vector<Readiness> ready;  // what health says
  repository->OnReadinessChange(
      [&](std::string_view, std::string_view, Readiness now) { ready.push_back(now); });
  ASSERT_TRUE(repository->Start().ok());
  repository->WaitUntilTried();
  ASSERT_TRUE(SendTo(*repository->Acquire("model", ""), 1).get().response.ok());

  faults_->lost = true;
  std::shared_ptr<const ServingModel> held = *repository->Acquire("model", "");
  EXPECT_THAT(SendTo(held, 1).get().response, Fails(absl::StatusCode::kUnavailable, "device.lost"));
  // The answer may be there before the repository has been told.
  while (repository->Acquire("model", "").ok()) std::this_thread::yield();
  EXPECT_THAT(repository->Acquire("model", "1"),
              Fails(absl::StatusCode::kUnavailable, "model.out_of_service"));
  ASSERT_EQ(repository->Index().size(), 1);
  EXPECT_EQ(repository->Index()[0].state, ModelState::kUnavailable);
  EXPECT_EQ(repository->Index()[0].reason, "the device that the model runs on is lost");
  // Who had it before is told, too.
  EXPECT_THAT(SendTo(std::move(held), 1).get().response,
              Fails(absl::StatusCode::kUnavailable, "device.lost"));
  EXPECT_EQ(repository->Load("model", "").code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(repository->Acquire("model", "").ok());

  faults_->lost = false;
  EXPECT_TRUE(repository->Load("model", "").ok());
  EXPECT_TRUE(SendTo(*repository->Acquire("model", ""), 1).get().response.ok());
  repository.reset();  // nobody tells the listener any more
  EXPECT_THAT(ready, testing::ElementsAre(Readiness::kReady, Readiness::kOutOfService,
                                          Readiness::kReady, Readiness::kGone));
}

}  // namespace
}  // namespace fovea
