#include "server/admission/request_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;

ModelView Model() {
  ModelView model;
  model.name = "vit";
  model.accepted_inputs = {{"pixel_values", DataType::kFp32, {-1, 3, 4, 5}},
                           {"image", DataType::kBytes, {-1, 1}},
                           {"image_rgb", DataType::kUint8, {-1, -1, -1, 3}}};
  model.outputs = {{"logits", DataType::kFp32, {-1, 10}}};
  model.max_batch_size = 4;
  model.default_queue_policy.max_queue_size = 100;
  model.sizes = {{4, 5}};
  return model;
}

std::string Framed(std::initializer_list<std::string> elements) {
  std::string data;
  for (const std::string& element : elements) {
    const auto size = static_cast<uint32_t>(element.size());
    data.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(element);
  }
  return data;
}

InputTensor Input(std::string name, DataType type, std::vector<int64_t> shape, std::string data) {
  return {std::move(name), type, std::move(shape), ScatteredBytes::Copy(data)};
}

InputTensor Pixels(int64_t images = 1) {
  return Input("pixel_values", DataType::kFp32, {images, 3, 4, 5},
               std::string(images * 3 * 4 * 5 * sizeof(float), '\0'));
}

InferenceRequest Request(std::vector<InputTensor> inputs) {
  InferenceRequest request;
  request.input = std::move(inputs);
  return request;
}

void ExpectRefused(const InferenceRequest& request, absl::StatusCode code, std::string_view reason,
                   std::string_view words = "") {
  const auto accepted = CheckRequest(request, Model());
  ASSERT_FALSE(accepted.ok());
  EXPECT_EQ(accepted.status().code(), code);
  EXPECT_EQ(ReasonOf(accepted.status()), reason);
  EXPECT_THAT(std::string(accepted.status().message()), HasSubstr(std::string(words)));
}

TEST(RequestRules, AcceptsEachOfTheThreeInputs) {
  const InferenceRequest pixels = Request({Pixels(4)});
  auto accepted = CheckRequest(pixels, Model());
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->kind, InputKind::kPixelValues);
  EXPECT_EQ(accepted->images, 4);
  EXPECT_EQ(accepted->size, 0u);
  EXPECT_EQ(accepted->tensor, &std::get<NamedTensors>(pixels.input)[0]);

  accepted = CheckRequest(
      Request({Input("image", DataType::kBytes, {2, 1}, Framed({"first", "second"}))}), Model());
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->kind, InputKind::kImage);
  EXPECT_EQ(accepted->images, 2);

  accepted = CheckRequest(
      Request({Input("image_rgb", DataType::kUint8, {1, 7, 9, 3}, std::string(189, 'x'))}),
      Model());
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->kind, InputKind::kImageRgb);
}

TEST(RequestRules, PixelsMayBeOfAnyOfTheModelsSizes) {
  ModelView model = Model();
  model.accepted_inputs[0].shape = {-1, 3, -1, -1};
  model.sizes = {{4, 5}, {8, 2}};
  const auto pixels = [](int64_t height, int64_t width) {
    return Request({Input("pixel_values", DataType::kFp32, {1, 3, height, width},
                          std::string(3 * height * width * sizeof(float), '\0'))});
  };
  const auto bytes = [](int64_t height, int64_t width) {
    return Request({Input("image_rgb", DataType::kUint8, {1, height, width, 3},
                          std::string(3 * height * width, 'x'))});
  };
  EXPECT_EQ(CheckRequest(pixels(4, 5), model)->size, 0u);
  EXPECT_EQ(CheckRequest(pixels(8, 2), model)->size, 1u);
  EXPECT_EQ(CheckRequest(bytes(8, 2), model)->size, 1u);
  EXPECT_EQ(CheckRequest(bytes(2, 8), model)->size, std::nullopt);
  model.fits_pictures = true;
  EXPECT_EQ(CheckRequest(pixels(8, 2), model)->size, 1u);
  EXPECT_EQ(CheckRequest(bytes(8, 2), model)->size, std::nullopt) << "a picture, as in a file";
  const absl::Status refused = CheckRequest(pixels(2, 8), model).status();
  EXPECT_EQ(ReasonOf(refused), "request.input_shape");
  EXPECT_EQ(refused.message(),
            "pixel_values has the shape [-1,3,4,5] or [-1,3,8,2], not [1,3,2,8]");
}

TEST(RequestRules, FilesMayComeFlat) {
  const auto accepted = CheckRequest(
      Request({Input("image", DataType::kBytes, {3}, Framed({"a", "", "c"}))}), Model());
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->images, 3);
}

TEST(RequestRules, TakesExactlyOneInput) {
  const auto code = absl::StatusCode::kInvalidArgument;
  ExpectRefused(Request({}), code, "request.input_count", "pixel_values, image, image_rgb");
  ExpectRefused(Request({Pixels(), Input("image", DataType::kBytes, {1, 1}, Framed({"x"}))}), code,
                "request.input_count");
}

TEST(RequestRules, RefusesWhatTheModelDoesNotTake) {
  const auto code = absl::StatusCode::kInvalidArgument;
  ExpectRefused(Request({Input("pixels", DataType::kFp32, {1}, "1234")}), code,
                "request.input_unknown", "'pixels'");
  ExpectRefused(Request({Input("pixel_values", DataType::kFp16, {1, 3, 4, 5}, "")}), code,
                "request.input_type", "FP32, not FP16");
  ExpectRefused(Request({Input("image", DataType::kUint8, {1, 1}, "x")}), code,
                "request.input_type", "BYTES");
}

TEST(RequestRules, RefusesAnotherShape) {
  const auto code = absl::StatusCode::kInvalidArgument;
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {1}, {3, 4, 5}, {1, 3, 4, 6}, {1, 3, 5, 5}, {1, 1, 4, 5}, {1, 3, 4, 5, 1}};
  for (const std::vector<int64_t>& shape : shapes) {
    ExpectRefused(Request({Input("pixel_values", DataType::kFp32, shape, "")}), code,
                  "request.input_shape", "[-1,3,4,5]");
  }
  ExpectRefused(Request({Input("image", DataType::kBytes, {1, 2}, Framed({"a", "b"}))}), code,
                "request.input_shape");
  ExpectRefused(Request({Input("image_rgb", DataType::kUint8, {1, 2, 2, 4}, std::string(16, 'x'))}),
                code, "request.input_shape");
  ExpectRefused(Request({Input("image_rgb", DataType::kUint8, {1, 0, 2, 3}, "")}), code,
                "request.input_shape");
  ExpectRefused(Request({Input("image_rgb", DataType::kUint8, {1, int64_t{1} << 62, 8, 3}, "")}),
                code, "request.input_shape");
}

TEST(RequestRules, RefusesDataThatIsNotTheSizeOfItsShape) {
  const auto code = absl::StatusCode::kInvalidArgument;
  ExpectRefused(
      Request({Input("pixel_values", DataType::kFp32, {1, 3, 4, 5}, std::string(239, 'x'))}), code,
      "request.input_size");
  ExpectRefused(
      Request({Input("pixel_values", DataType::kFp32, {1, 3, 4, 5}, std::string(244, 'x'))}), code,
      "request.input_size");
  ExpectRefused(Request({Input("image", DataType::kBytes, {2, 1}, Framed({"one"}))}), code,
                "request.input_size");
  ExpectRefused(Request({Input("image", DataType::kBytes, {1, 1}, Framed({"one"}) + "x")}), code,
                "request.input_size");
}

TEST(RequestRules, RefusesMoreImagesThanABatchHolds) {
  ExpectRefused(Request({Pixels(5)}), absl::StatusCode::kInvalidArgument, "request.batch_too_large",
                "at most 4");
}

TEST(RequestRules, Row13RefusesAFileAboveTheLimit) {
  const std::string at_most(limits::kMaxEncodedImageBytes, 'x');
  EXPECT_TRUE(
      CheckRequest(Request({Input("image", DataType::kBytes, {1, 1}, Framed({at_most}))}), Model())
          .ok());
  ExpectRefused(
      Request({Input("image", DataType::kBytes, {2, 1}, Framed({"small", at_most + "x"}))}),
      absl::StatusCode::kResourceExhausted, "image.too_many_bytes");
}

TEST(RequestRules, RefusesPixelsOfImpossibleExtent) {
  const auto code = absl::StatusCode::kInvalidArgument;
  ExpectRefused(
      Request({Input("image_rgb", DataType::kUint8, {1, 1001, 1, 3}, std::string(3003, 'x'))}),
      code, "image.extreme_aspect_ratio");
  const int64_t side = limits::kMaxImageSide + 1;
  ExpectRefused(Request({Input("image_rgb", DataType::kUint8, {1, side, 100, 3},
                               std::string(side * 300, 'x'))}),
                code, "image.too_many_pixels");
}

TEST(RequestRules, ImagesComeAsFilesToo) {
  InferenceRequest request;
  request.input = ImageFiles{{ScatteredBytes::Copy("first"), ScatteredBytes::Copy("second")}};
  const auto accepted = CheckRequest(request, Model());
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->kind, InputKind::kImage);
  EXPECT_EQ(accepted->images, 2);
  EXPECT_EQ(accepted->files[1].size(), 6u);

  request.input = ImageFiles{};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "request.no_image");
  request.input = ImageFiles{std::vector<ScatteredBytes>(5, ScatteredBytes::Copy("one"))};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "request.batch_too_large");
  request.input =
      ImageFiles{{ScatteredBytes::Copy(std::string(limits::kMaxEncodedImageBytes + 1, 'x'))}};
  ExpectRefused(request, absl::StatusCode::kResourceExhausted, "image.too_many_bytes");
}

TEST(RequestRules, PicturesThatRunByThemselvesNeedAPlaceInTheQueueEach) {
  ModelView model = Model();
  model.fits_pictures = true;
  const auto most = [&](int queue) {
    model.default_queue_policy.max_queue_size = queue;
    InferenceRequest request;
    int images = 0;
    do {
      request.input =
          ImageFiles{std::vector<ScatteredBytes>(images + 1, ScatteredBytes::Copy("file"))};
    } while (CheckRequest(request, model).ok() && ++images < 1000);
    EXPECT_EQ(ReasonOf(CheckRequest(request, model).status()), "request.batch_too_large");
    return images;
  };
  EXPECT_EQ(most(256), limits::kMaxPicturesPerRequest);
  EXPECT_EQ(most(7), 7);
  EXPECT_EQ(most(2), 2) << "though a batch holds four";
  model.priority_levels = model.default_priority_level = 2;
  model.priority_queue_policy[2] = {.max_queue_size = 9};
  EXPECT_EQ(most(2), 9) << "of its level";
}

TEST(RequestRules, ACallersNameIsEscapedInTheMessage) {
  const auto accepted = CheckRequest(
      Request({Input(std::string("a\nb\x1b[31m\0", 9), DataType::kFp32, {1}, "1234")}), Model());
  EXPECT_THAT(std::string(accepted.status().message()), HasSubstr("'a\\nb\\x1b[31m\\x00'"));
  const auto long_name =
      CheckRequest(Request({Input(std::string(10'000, 'a'), DataType::kFp32, {1}, "")}), Model());
  EXPECT_LT(long_name.status().message().size(), 300u);
}

TEST(MemoryPerImage, CountsOutputsResultsAndPixelsThatHaveToBeMade) {
  ModelView model;
  model.sizes = {{10, 20}};
  constexpr int64_t kOutputs = 1000 * 4 + 5 * 6;
  model.output_bytes = kOutputs;
  EXPECT_EQ(MemoryPerImage(model, /*decoded=*/false, /*result_bytes=*/0), kOutputs);
  EXPECT_EQ(MemoryPerImage(model, /*decoded=*/false, 77), kOutputs + 77);
  EXPECT_EQ(MemoryPerImage(model, /*decoded=*/true, 77), kOutputs + 77 + 10 * 20 * 3);
  model.sizes = {{10, 20}, {30, 10}};
  EXPECT_EQ(MemoryPerImage(model, /*decoded=*/true, 0), kOutputs + 10 * 20 * 3);
  model.fits_pictures = true;
  EXPECT_EQ(MemoryPerImage(model, /*decoded=*/true, 0), kOutputs + 30 * 10 * 3);
}

}  // namespace
}  // namespace fovea
