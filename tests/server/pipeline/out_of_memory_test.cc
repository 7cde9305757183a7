// Docs/faults.md, row 39: memory that cannot be had, in the stages behind the transport.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/pipeline/image_by_image.h"
#include "server/pipeline/inference_pipeline.h"
#include "server/pipeline/silent_observer.h"
#include "tests/server/allocation_limit.h"

namespace fovea {
namespace {

constexpr int64_t kSide = 1024;  // of the model's input: 3 MiB

class PipelineMemory : public testing::Test {
 protected:
  PipelineMemory() {
    VersionToLoad parsed;
    parsed.name = "identity";
    parsed.version = 1;
    parsed.spec = *ParseModelSpec(
        "spec_version: 1 backbone: \"identity\" random_weights { seed: 1 } max_batch_size: 2 "
        "image_height: 1024 image_width: 1024 advertised_input: IMAGE_RGB",
        "identity");
    auto created = ServedModel::Create(parsed, {.scheduler = *scheduler_,
                                                .imaging = *imaging_,
                                                .clock = SteadyClock(),
                                                .observe =
                                                    [](const std::shared_ptr<const ModelView>&) {
                                                      return std::make_unique<SilentObserver>();
                                                    },
                                                .device_threads = 1,
                                                .drain_timeout_us = 10'000'000});
    EXPECT_TRUE(created.ok()) << created.status();
    model_ = std::static_pointer_cast<ServedModel>(*created);
  }

  // Pixels that lie in two pieces, as they come from a socket.
  static InputTensor Rgb(int64_t height, int64_t width) {
    const auto owner = std::make_shared<std::string>(height * width * 3, 'A');
    const auto bytes = std::as_bytes(std::span(*owner));
    return {.name = "image_rgb",
            .type = DataType::kUint8,
            .shape = {1, height, width, 3},
            .data = ScatteredBytes({bytes.first(1000), bytes.subspan(1000)}, owner)};
  }

  absl::Status Infer(InputTensor input) {
    auto request = std::make_unique<InferenceRequest>();
    request->model_name = "identity";
    request->stages = StageTimes(SteadyClock().Now());
    request->input = NamedTensors{std::move(input)};
    auto promise = std::make_shared<std::promise<absl::Status>>();
    ServingModel::Infer(Handle(), std::move(request),
                        [promise](absl::StatusOr<InferenceResponse> response, StageTimes) {
                          promise->set_value(response.status());
                        });
    return promise->get_future().get();
  }

  // Not an owner: a model may not be destroyed on a thread of its own queue, which the repository's
  // handles see to.
  std::shared_ptr<const ServingModel> Handle() const {
    return std::shared_ptr<const ServingModel>(std::shared_ptr<void>(), model_.get());
  }

  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::Create({.device_threads = 1}, SteadyClock());
  std::unique_ptr<ImagingPool> imaging_ = *ImagingPool::Create({.threads = 1}, SteadyClock());
  std::shared_ptr<ServedModel> model_;
};

TEST_F(PipelineMemory, AnImageThatCannotBeGatheredFailsItsRequestAlone) {
  InputTensor large = Rgb(2000, 2000);  // 12 MB, which imaging wants in one piece
  {
    const AllocationLimit none_left(8 << 20);
    EXPECT_EQ(Infer(large).code(), absl::StatusCode::kUnavailable);
    EXPECT_GE(none_left.refused(), 1);
  }
  EXPECT_TRUE(Infer(large).ok());
}

TEST_F(PipelineMemory, PixelsThatHaveNoRoomFailTheirRequestAlone) {
  InputTensor small = Rgb(100, 100);
  {
    const AllocationLimit none_left(2 << 20);  // the model's size does not fit
    EXPECT_EQ(Infer(small).code(), absl::StatusCode::kUnavailable);
    EXPECT_GE(none_left.refused(), 1);
  }
  EXPECT_TRUE(Infer(small).ok());
}

TEST_F(PipelineMemory, AnOutputThatCannotBeCopiedFailsItsRequestAlone) {
  InputTensor exact = Rgb(kSide, kSide);  // goes to the model as it lies
  {
    const AllocationLimit none_left(2 << 20);
    EXPECT_EQ(Infer(exact).code(), absl::StatusCode::kUnavailable);
    EXPECT_GE(none_left.refused(), 1);
  }
  EXPECT_TRUE(Infer(exact).ok());
}

TEST(ImageByImageMemory, ARequestThatCannotBeSplitIsAnsweredOnceAndRunsNothing) {
  auto request = std::make_unique<InferenceRequest>();
  // Each image's request has them, too: 3 MB.
  request->options = DetectOptions{.classes = std::vector<std::string>(100'000, "0")};
  const AcceptedInput input{.kind = InputKind::kImage,
                            .files = std::vector<ScatteredBytes>(2, ScatteredBytes::Copy("file")),
                            .images = 2};
  const CancellationPtr cancellation = request->cancellation;
  std::vector<absl::Status> answers;
  int runs = 0;
  {
    const AllocationLimit none_left(1 << 20);
    RunImageByImage(
        std::move(request), input,
        [&](const absl::StatusOr<InferenceResponse>& response, const StageTimes&) {
          answers.push_back(response.status());
        },
        [&](std::unique_ptr<InferenceRequest>, const InferenceCallback&) { ++runs; });
    EXPECT_GE(none_left.refused(), 1);
  }
  EXPECT_EQ(runs, 0);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(answers[0]), "server.out_of_memory");
  cancellation->Cancel();  // reaches nothing of it any more
}

// Promise 6: a short message makes much of each of its pictures.
TEST(ImageByImageMemory, WhatEachImagesRequestHoldsCounts) {
  constexpr int kImages = 3, kClasses = 10'000;
  const int64_t taken = kImages * kClasses * (static_cast<int64_t>(sizeof(std::string)) + 1);
  const AcceptedInput input{
      .kind = InputKind::kImage,
      .files = std::vector<ScatteredBytes>(kImages, ScatteredBytes::Copy("file")),
      .images = kImages};
  for (const bool fits : {true, false}) {
    MemoryBudget budget(fits ? taken : taken - 1, SteadyClock());
    RequestMemory memory(budget);
    auto request = std::make_unique<InferenceRequest>();
    request->options = DetectOptions{.classes = std::vector<std::string>(kClasses, "0")};
    request->memory = &memory;
    absl::Status status;
    int runs = 0;
    RunImageByImage(
        std::move(request), input,
        [&](const absl::StatusOr<InferenceResponse>& response, const StageTimes&) {
          status = response.status();
        },
        [&](std::unique_ptr<InferenceRequest> one, const InferenceCallback& done) {
          ++runs;
          EXPECT_EQ(std::get<DetectOptions>(one->options).classes.size(), size_t{kClasses});
          done(Unavailable("test", "not run"), one->stages);
        });
    EXPECT_EQ(runs, fits ? kImages : 0);
    EXPECT_EQ(memory.bytes(), fits ? taken : 0);
    EXPECT_EQ(ReasonOf(status), fits ? "test" : "request.memory");
  }
}

// What was taken of the memory for requests is for each picture's outputs once.
TEST(ImageByImageMemory, ResultsOfSeveralImagesAreJoinedWithoutACopy) {
  constexpr int kImages = 3;
  constexpr size_t kBytes = 1 << 20;
  const AcceptedInput input{
      .kind = InputKind::kImage,
      .files = std::vector<ScatteredBytes>(kImages, ScatteredBytes::Copy("file")),
      .images = kImages};
  std::vector<InferenceResponse> parts(kImages);
  std::vector<const char*> lie_at;
  for (int image = 0; image < kImages; ++image) {
    std::string data(kBytes, static_cast<char>('a' + image));
    lie_at.push_back(data.data());
    TensorResults outputs;
    outputs.push_back({"output", DataType::kUint8, {1, int64_t{kBytes}}, std::move(data)});
    parts[image].results = std::move(outputs);
  }
  absl::StatusOr<InferenceResponse> whole = Unavailable("test", "not answered");
  {
    const AllocationLimit none_left(kBytes / 2);
    int image = 0;
    RunImageByImage(
        std::make_unique<InferenceRequest>(), input,
        [&](absl::StatusOr<InferenceResponse> response, const StageTimes&) {
          whole = std::move(response);
        },
        [&](std::unique_ptr<InferenceRequest> one, const InferenceCallback& done) {
          done(std::move(parts[image++]), one->stages);
        });
    EXPECT_EQ(none_left.refused(), 0);
  }
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto& outputs = std::get<TensorResults>(whole->results);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{kImages, int64_t{kBytes}}));
  EXPECT_EQ(outputs[0].data.data(), lie_at[0]);
  ASSERT_EQ(outputs[0].further.size(), size_t{kImages - 1});
  for (int image = 1; image < kImages; ++image) {
    EXPECT_EQ(outputs[0].further[image - 1].data(), lie_at[image]) << image;
    EXPECT_EQ(outputs[0].further[image - 1], std::string(kBytes, static_cast<char>('a' + image)));
  }
}

}  // namespace
}  // namespace fovea
