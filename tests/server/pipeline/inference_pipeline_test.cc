// The stages together, on a real (seeded) model, without a transport.
#include "server/pipeline/inference_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <future>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "server/core/mutex.h"
#include "server/core/testing/fake_clock.h"
#include "server/core/testing/notification.h"
#include "server/pipeline/silent_observer.h"

namespace fovea {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kSide = 64;

class CountingObserver final : public SilentObserver {
 public:
  void OnRejected(int, Rejection why) override { refused += why == Rejection::kDeadline; }
  void OnBatch(const BatchRun& run) override {
    images += run.images;
    threads = run.threads;
  }
  std::atomic<int> images{0};
  std::atomic<int> threads{0};  // of the last batch
  std::atomic<int> refused{0};  // because of their deadline
};

VersionToLoad Parsed(const std::string& backbone, const std::string& extra = "") {
  VersionToLoad model;
  model.name = "model";
  model.version = 3;
  auto spec = ParseModelSpec("spec_version: 1 backbone: \"" + backbone +
                                 "\" random_weights { seed: 1 } max_batch_size: 4 " + extra,
                             "model");
  EXPECT_TRUE(spec.ok()) << spec.status();
  model.spec = *std::move(spec);
  return model;
}

class InferencePipelineTest : public testing::Test {
 protected:
  explicit InferencePipelineTest(Clock& clock = SteadyClock(), int imaging_threads = 2)
      : clock_(clock), imaging_(*ImagingPool::Create({.threads = imaging_threads}, clock)) {}

  void Serve(const VersionToLoad& parsed) {
    auto created =
        ServedModel::Create(parsed, {.scheduler = *scheduler_,
                                     .imaging = *imaging_,
                                     .clock = clock_,
                                     .observe =
                                         [this](const std::shared_ptr<const ModelView>&) {
                                           auto observer = std::make_unique<CountingObserver>();
                                           observer_ = observer.get();
                                           return observer;
                                         },
                                     .device_threads = 2,
                                     .drain_timeout_us = 10'000'000});
    ASSERT_TRUE(created.ok()) << created.status();
    model_ = std::static_pointer_cast<ServedModel>(*created);
  }

  struct Answer {
    absl::StatusOr<InferenceResponse> response;
    StageTimes stages;
  };
  static const TensorResults& Outputs(const Answer& answer) {
    return std::get<TensorResults>(answer.response->results);
  }
  static const ClassifyResults& Classes(const Answer& answer) {
    return std::get<ClassifyResults>(answer.response->results);
  }

  std::future<Answer> Send(std::unique_ptr<InferenceRequest> request) {
    auto promise = std::make_shared<std::promise<Answer>>();
    request->stages = StageTimes(clock_.Now());
    ServingModel::Infer(Handle(), std::move(request),
                        [promise](absl::StatusOr<InferenceResponse> response, StageTimes stages) {
                          promise->set_value({std::move(response), stages});
                        });
    return promise->get_future();
  }

  static std::unique_ptr<InferenceRequest> Request(std::string name, DataType type,
                                                   std::vector<int64_t> shape,
                                                   std::string_view data) {
    auto request = std::make_unique<InferenceRequest>();
    request->input =
        NamedTensors{{std::move(name), type, std::move(shape), ScatteredBytes::Copy(data)}};
    return request;
  }

  static std::unique_ptr<InferenceRequest> Pixels(int images, float fill = NAN) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(images * 3 * kSide * kSide);
    for (float& value : values) value = std::isnan(fill) ? normal(random) : fill;
    return Request("pixel_values", DataType::kFp32, {images, 3, kSide, kSide},
                   {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  // Not an owner: a model may not be destroyed on a thread of its own queue, which the repository's
  // handles see to.
  std::shared_ptr<const ServingModel> Handle() const {
    return std::shared_ptr<const ServingModel>(std::shared_ptr<void>(), model_.get());
  }

  Clock& clock_;
  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::Create({.device_threads = 2}, clock_);
  std::unique_ptr<ImagingPool> imaging_;
  CountingObserver* observer_ = nullptr;
  std::shared_ptr<ServedModel> model_;
};

TEST_F(InferencePipelineTest, TheReceiptSaysOnHowManyThreadsTheBatchRan) {
  for (const int threads : {1, 2}) {
    Serve(Parsed("vit_demo_patch8_64",
                 "instance_group { threads: " + std::to_string(threads) + " }"));
    Answer answer = Send(Pixels(1)).get();
    ASSERT_TRUE(answer.response.ok()) << answer.response.status();
    EXPECT_EQ(answer.response->receipt.batch_threads, threads);
    EXPECT_EQ(observer_->threads, threads);
  }
}

TEST_F(InferencePipelineTest, AnswersPixelsWithLogitsAndAReceiptWhoseStagesAddUp) {
  Serve(Parsed("vit_demo_patch8_64"));
  Answer answer = Send(Pixels(2)).get();
  ASSERT_TRUE(answer.response.ok()) << answer.response.status();
  EXPECT_EQ(answer.response->model_version, "3");
  EXPECT_TRUE(answer.response->untrained);
  ASSERT_EQ(Outputs(answer).size(), 1u);
  EXPECT_EQ(Outputs(answer)[0].name, "logits");
  EXPECT_EQ(Outputs(answer)[0].shape[0], 2);
  EXPECT_EQ(answer.response->receipt.batch_size, 2);
  EXPECT_GT(answer.response->receipt.batch_peak_bytes, 2 * 3 * kSide * kSide * 4);
  Nanos sum = 0;
  for (int stage = 0; stage < kStageCount; ++stage) sum += answer.stages[static_cast<Stage>(stage)];
  EXPECT_EQ(sum, answer.stages.total());
  EXPECT_GT(answer.stages[Stage::kCompute], 0);
}

TEST_F(InferencePipelineTest, GivesTopClassesWhereTheyAreAskedFor) {
  Serve(Parsed("vit_demo_patch8_64"));
  auto request = Pixels(2);
  request->options = ClassifyOptions{.top_k = 3};
  Answer answer = Send(std::move(request)).get();
  ASSERT_TRUE(answer.response.ok());
  ASSERT_EQ(Classes(answer).size(), 2u);
  EXPECT_EQ(Classes(answer)[0].size(), 3u);
}

std::string Photograph() {
  std::stringstream bytes;
  bytes << std::ifstream(FOVEA_SOURCE_DIR "/client/examples/star.jpg", std::ios::binary).rdbuf();
  EXPECT_FALSE(bytes.view().empty());
  return bytes.str();
}

std::unique_ptr<InferenceRequest> Files(int images) {
  auto request = std::make_unique<InferenceRequest>();
  request->input =
      ImageFiles{std::vector<ScatteredBytes>(images, ScatteredBytes::Copy(Photograph()))};
  return request;
}

TEST_F(InferencePipelineTest, FilesAsImagesAndInATensorGiveTheSame) {
  Serve(Parsed("vit_demo_patch8_64"));
  const std::string file = Photograph();
  const auto size = static_cast<uint32_t>(file.size());
  const std::string element =
      std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + file;
  const Answer tensor = Send(Request("image", DataType::kBytes, {2, 1}, element + element)).get();
  const Answer images = Send(Files(2)).get();
  ASSERT_TRUE(tensor.response.ok()) << tensor.response.status();
  ASSERT_TRUE(images.response.ok()) << images.response.status();
  EXPECT_GT(images.stages[Stage::kDecode], 0);
  EXPECT_EQ(Outputs(images)[0].shape, (std::vector<int64_t>{2, 10}));
  EXPECT_EQ(Outputs(images)[0].data, Outputs(tensor)[0].data);
  // And not what any picture gives.
  const std::string grey(kSide * kSide * 3, 'A');
  const Answer other =
      Send(Request("image_rgb", DataType::kUint8, {1, kSide, kSide, 3}, grey)).get();
  EXPECT_NE(Outputs(other)[0].data, Outputs(images)[0].data.substr(0, 10 * sizeof(float)));
}

TEST_F(InferencePipelineTest, ARequestTakesTheMemoryOfItsPixelsAndItsAnswer) {
  Serve(Parsed("vit_demo_patch8_64"));
  MemoryBudget budget(1 << 20, clock_);
  RequestMemory memory(budget);
  auto request = Files(2);
  request->memory = &memory;
  ASSERT_TRUE(Send(std::move(request)).get().response.ok());
  EXPECT_EQ(memory.bytes(), 2 * (3 * kSide * kSide + 10 * static_cast<int64_t>(sizeof(float))));
}

TEST_F(InferencePipelineTest, ARequestThatFindsNoMemoryIsRefusedBeforeItIsDecoded) {
  Serve(Parsed("vit_demo_patch8_64"));
  MemoryBudget budget(2 * 3 * kSide * kSide, clock_);
  RequestMemory memory(budget);
  auto request = Files(2);
  request->memory = &memory;
  const Answer refused = Send(std::move(request)).get();
  EXPECT_EQ(ReasonOf(refused.response.status()), "request.memory");
  EXPECT_EQ(refused.stages[Stage::kDecode], 0);
  EXPECT_EQ(model_->queue().depth().reserved, 0) << "its place is given back";
}

// A model at several sizes: each is a shape of its own, in batches of its own.
TEST_F(InferencePipelineTest, PixelsMayBeOfAnyOfTheModelsSizes) {
  Serve(Parsed("vit_demo_patch8_64",
               "dynamic_batching { max_queue_delay_microseconds: 10000000 } "
               "instance_group { count: 1 } further_image_sizes { height: 48 width: 72 }"));
  ASSERT_EQ(model_->view()->sizes.size(), 2u);
  EXPECT_EQ(model_->view()->properties.at("fovea.sizes"), "64x64; 48x72");
  std::vector<float> numbers(2 * 3 * 48 * 72, 0.5f);
  const auto further = [&] {
    return Request("pixel_values", DataType::kFp32, {2, 3, 48, 72},
                   {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)});
  };
  // In this order they would fill no batch of four, if they were of one shape.
  std::future<Answer> own = Send(Pixels(1)), other = Send(further()), last = Send(further()),
                      rest = Send(Pixels(3));
  const Answer first = other.get(), second = last.get();
  EXPECT_EQ(own.get().response->receipt.batch_size, 4);
  EXPECT_EQ(rest.get().response->receipt.batch_size, 4);
  ASSERT_TRUE(first.response.ok()) << first.response.status();
  EXPECT_EQ(first.response->receipt.batch_size, 4);
  EXPECT_EQ(Outputs(first)[0].shape, (std::vector<int64_t>{2, 10}));
  EXPECT_EQ(Outputs(first)[0].data, Outputs(second)[0].data);

  // What the model gives that is loaded at that size, whose positions are as random.
  model_.reset();
  Serve(Parsed("vit_demo_patch8_64", "image_height: 48 image_width: 72"));
  std::vector<float> four(4 * 3 * 48 * 72, 0.5f);
  auto both = Request("pixel_values", DataType::kFp32, {4, 3, 48, 72},
                      {reinterpret_cast<const char*>(four.data()), four.size() * sizeof(float)});
  const Answer loaded = Send(std::move(both)).get();
  ASSERT_TRUE(loaded.response.ok()) << loaded.response.status();
  EXPECT_EQ(Outputs(loaded)[0].data.substr(0, 2 * 10 * 4), Outputs(first)[0].data);
}

TEST_F(InferencePipelineTest, AModelSaysThatItsJpegsAreDecodedFast) {
  Serve(Parsed("vit_demo_patch8_64", "preprocessing { fast_decode: true }"));
  EXPECT_EQ(model_->view()->properties.at("fovea.fast_decode"), "true");
  EXPECT_TRUE(model_->preprocessing().fast_decode);
}

TEST_F(InferencePipelineTest, BytesOfAFurtherSizeRunAsTheyAreAndOthersAreResizedToTheModelsOwn) {
  Serve(Parsed("vit_demo_patch8_64", "further_image_sizes { height: 48 width: 72 }"));
  EXPECT_FALSE(model_->view()->properties.contains("fovea.fast_decode"));
  EXPECT_FALSE(model_->preprocessing().fast_decode);
  const auto bytes = [](int height, int width) {
    return Request("image_rgb", DataType::kUint8, {1, height, width, 3},
                   std::string(height * width * 3, 'A'));
  };
  const Answer as_it_is = Send(bytes(48, 72)).get(), resized = Send(bytes(72, 48)).get();
  ASSERT_TRUE(as_it_is.response.ok()) << as_it_is.response.status();
  ASSERT_TRUE(resized.response.ok()) << resized.response.status();
  EXPECT_EQ(as_it_is.stages[Stage::kPreprocess], 0);
  EXPECT_GT(resized.stages[Stage::kPreprocess], 0);
  EXPECT_NE(Outputs(as_it_is)[0].data, Outputs(resized)[0].data);
}

TEST_F(InferencePipelineTest, PixelsOfTheModelsSizeAreNotResized) {
  Serve(Parsed("identity", "image_height: 64 image_width: 64 advertised_input: IMAGE_RGB"));
  std::string rgb(kSide * kSide * 3, '\0');
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<char>(i * 7);
  Answer answer = Send(Request("image_rgb", DataType::kUint8, {1, kSide, kSide, 3}, rgb)).get();
  ASSERT_TRUE(answer.response.ok()) << answer.response.status();
  EXPECT_EQ(Outputs(answer)[0].data, rgb);
  EXPECT_EQ(Outputs(answer)[0].type, DataType::kUint8);
  EXPECT_EQ(answer.stages[Stage::kPreprocess], 0);
}

TEST_F(InferencePipelineTest, PixelsOfAnotherSizeAreResized) {
  Serve(Parsed("identity", "image_height: 64 image_width: 64 advertised_input: IMAGE_RGB"));
  const std::string grey(100 * 200 * 3, 'A');
  Answer answer = Send(Request("image_rgb", DataType::kUint8, {1, 100, 200, 3}, grey)).get();
  ASSERT_TRUE(answer.response.ok()) << answer.response.status();
  EXPECT_EQ(Outputs(answer)[0].data, std::string(kSide * kSide * 3, 'A'));
  EXPECT_GT(answer.stages[Stage::kPreprocess], 0);
}

TEST_F(InferencePipelineTest, ClassesOfAModelWithoutLogitsAreRefused) {
  Serve(Parsed("identity", "image_height: 64 image_width: 64 advertised_input: IMAGE_RGB"));
  const auto rgb = [] {
    return Request("image_rgb", DataType::kUint8, {1, kSide, kSide, 3},
                   std::string(kSide * kSide * 3, 'A'));
  };
  auto best = rgb();
  best->options = ClassifyOptions{.top_k = 1};
  EXPECT_EQ(Send(std::move(best)).get().response.status().code(),
            absl::StatusCode::kFailedPrecondition);
  auto strings = rgb();
  strings->options = WantedTensors{{{"output", 1}}};
  EXPECT_EQ(Send(std::move(strings)).get().response.status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(InferencePipelineTest, Row11NumbersThatAreNotFiniteAreRefusedWhereTheModelSaysSo) {
  Serve(Parsed("vit_demo_patch8_64", "allow_non_finite: false"));
  Answer answer = Send(Pixels(1, INFINITY)).get();
  EXPECT_EQ(answer.response.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(answer.response.status()), "request.non_finite");
  EXPECT_EQ(observer_->images, 0);
}

TEST_F(InferencePipelineTest, Row11AnAnswerSaysThatItsInputWasNotFinite) {
  Serve(Parsed("vit_demo_patch8_64"));
  const Answer answer = Send(Pixels(1, INFINITY)).get();
  ASSERT_TRUE(answer.response.ok()) << answer.response.status();
  EXPECT_TRUE(answer.response->non_finite_input);
  EXPECT_FALSE(Send(Pixels(1)).get().response->non_finite_input);
}

TEST_F(InferencePipelineTest, Row43ABadFileFailsItsOwnRequestOnly) {
  Serve(Parsed("vit_demo_patch8_64"));
  std::vector<std::future<Answer>> good;
  for (int i = 0; i < 4; ++i) good.push_back(Send(Pixels(1)));
  const std::string element("\x05\0\0\0hello", 9);
  Answer bad = Send(Request("image", DataType::kBytes, {1, 1}, element)).get();
  EXPECT_EQ(bad.response.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(ReasonOf(bad.response.status()), HasSubstr("image."));
  for (auto& answer : good) EXPECT_TRUE(answer.get().response.ok());
}

// Before the fixture that is made with it.
struct StandingClock {
  FakeClock fake;
};

// Time stands still but for what a test lets pass. One image is decoded at a time.
class ScheduledDecodingTest : protected StandingClock, public InferencePipelineTest {
 protected:
  ScheduledDecodingTest() : InferencePipelineTest(fake, /*imaging_threads=*/1) {
    Serve(Parsed("identity",
                 "image_height: 64 image_width: 64 dynamic_batching { priority_levels: 2 }"));
  }

  // A photograph of 12 megapixels that ends behind its header: decoding it fails.
  static std::unique_ptr<InferenceRequest> Photograph(Nanos deadline, uint64_t priority = 1) {
    static constexpr std::string_view kFile(
        "\x19\0\0\0"
        "\xff\xd8\xff\xc0\0\x11\x08\x0b\xb8\x0f\xa0\x03\x01\x22\0\x02\x11\x01\x03\x11\x01"
        "\xff\xda\0\x0c",
        29);
    auto request = Request("image", DataType::kBytes, {1, 1}, kFile);
    request->deadline = deadline;
    request->priority = priority;
    return request;
  }

  // Has a photograph take `took` to decode, as the forecasts will remember.
  void Learn(Nanos took) {
    ASSERT_TRUE(model_->imaging_line()
                    .Submit({.run =
                                 [this, took](const absl::Status&) {
                                   fake.Advance(took);
                                   return true;
                                 },
                             .outline = {.work = kPhotograph}})
                    .ok());
    while (model_->imaging_line().Forecast(0, kNever, {&kPhotograph, 1}) <= fake.Now()) {
      std::this_thread::yield();
    }
  }

  // Keeps the decoding thread busy until `release_`.
  void Block() {
    ASSERT_TRUE(model_->imaging_line()
                    .Submit({.run =
                                 [this](const absl::Status&) {
                                   blocked_.Notify();
                                   release_.Wait();
                                   return false;
                                 }})
                    .ok());
    blocked_.Wait();
  }

  static constexpr ImagingWork kPhotograph{ImageKind::kJpeg, 4000 * 3000};
  Notification blocked_, release_;
};

TEST_F(ScheduledDecodingTest, AnImageThatCannotBeDecodedInTimeIsRefusedByTheQueue) {
  Learn(2 * kSecond);
  Answer refused = Send(Photograph(fake.Now() + kSecond)).get();
  EXPECT_EQ(refused.response.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(refused.response.status()), "queue.unreachable_deadline");
  EXPECT_EQ(observer_->refused, 1);
  EXPECT_EQ(imaging_->queued(), 0);
  EXPECT_EQ(refused.stages[Stage::kDecode] + refused.stages[Stage::kPreprocess], 0);
  // With more time it is decoded: this file then turns out to be damaged.
  Answer decoded = Send(Photograph(fake.Now() + 3 * kSecond)).get();
  EXPECT_EQ(ReasonOf(decoded.response.status()), "image.truncated");
  EXPECT_EQ(observer_->refused, 1);
}

TEST_F(ScheduledDecodingTest, ImagesAreDecodedByTheirRequestsPriorityAndDeadline) {
  Block();
  Mutex mutex;
  std::vector<std::string> order;  // guarded by mutex
  const auto send = [&](const std::string& name, uint64_t priority, Nanos deadline) {
    auto request = Photograph(deadline, priority);
    request->stages = StageTimes(fake.Now());
    ServingModel::Infer(Handle(), std::move(request),
                        [&, name](const absl::StatusOr<InferenceResponse>&, const StageTimes&) {
                          MutexLock lock(mutex);
                          order.push_back(name);
                        });
  };
  send("low, soon", 2, fake.Now() + kSecond);
  send("high, without", 1, kNever);
  send("high, late", 1, fake.Now() + 3 * kSecond);
  send("low, late", 2, fake.Now() + 4 * kSecond);
  send("high, soon", 1, fake.Now() + 2 * kSecond);
  release_.Notify();
  imaging_->Stop();  // runs what is queued
  MutexLock lock(mutex);
  EXPECT_THAT(order,
              ElementsAre("high, soon", "high, late", "high, without", "low, soon", "low, late"));
}

TEST_F(ScheduledDecodingTest, AnImageWhoseTimeRanOutInTheLineIsNotDecoded) {
  Learn(2 * kSecond);
  Block();
  std::future<Answer> expired = Send(Photograph(fake.Now() + 5 * kSecond));
  std::future<Answer> hopeless = Send(Photograph(fake.Now() + 7 * kSecond));
  std::future<Answer> decoded = Send(Photograph(fake.Now() + 9 * kSecond));
  fake.Advance(5 * kSecond + kSecond / 2);
  release_.Notify();
  EXPECT_EQ(ReasonOf(expired.get().response.status()), "queue.expired");
  EXPECT_EQ(ReasonOf(hopeless.get().response.status()), "queue.unreachable_deadline");
  EXPECT_EQ(ReasonOf(decoded.get().response.status()), "image.truncated");
}

TEST_F(InferencePipelineTest, Row35EveryRequestIsAnsweredOnceWhereverItIsCancelled) {
  Serve(Parsed("vit_demo_patch8_64"));
  std::vector<std::future<Answer>> answers;
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    auto request = Pixels(1 + i % 4);
    CancellationPtr cancellation = request->cancellation;
    if (i % 3 == 0) cancellation->Cancel();
    answers.push_back(Send(std::move(request)));
    if (i % 3 == 1 && random() % 2) cancellation->Cancel();
    if (i % 3 == 2) {
      std::thread([cancellation, wait = random() % 3000] {
        std::this_thread::sleep_for(std::chrono::microseconds(wait));
        cancellation->Cancel();
      }).detach();
    }
  }
  std::map<absl::StatusCode, int> codes;
  for (auto& answer : answers) ++codes[answer.get().response.status().code()];
  for (const auto& [code, count] : codes) {
    EXPECT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kCancelled ||
                code == absl::StatusCode::kUnavailable)
        << absl::StatusCodeToString(code);
  }
  EXPECT_GE(codes[absl::StatusCode::kCancelled], 100);
}

TEST_F(InferencePipelineTest, MetadataNamesEveryInputAndListsOne) {
  Serve(Parsed("vit_demo_patch8_64"));
  const ModelView& view = *model_->view();
  ASSERT_EQ(view.inputs.size(), 1u);
  EXPECT_THAT(view.inputs[0].shape, ElementsAre(-1, 3, kSide, kSide));
  EXPECT_EQ(view.accepted_inputs.size(), 3u);
  EXPECT_THAT(view.properties.at("fovea.inputs"), HasSubstr("image_rgb UINT8 [-1,-1,-1,3]"));
  EXPECT_EQ(view.properties.at("fovea.untrained"), "true");
}

}  // namespace
}  // namespace fovea
