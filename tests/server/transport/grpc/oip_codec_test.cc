#include "server/transport/grpc/oip_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/testing/fake_clock.h"
#include "tests/server/transport/grpc/codec_testing.h"

namespace fovea {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void ExpectRefused(const ModelInferRequest& message, absl::StatusCode code, std::string_view reason,
                   const std::string& words = "") {
  InferenceRequest request;
  const absl::Status status = Read(message, &request);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_EQ(ReasonOf(status), reason) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  EXPECT_EQ(request.id, message.id()) << "an error is answered with the request's id";
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ReadModelInferRequest, ReadsEverythingThatARequestCanHave) {
  InferenceRequest request;
  request.stages = StageTimes(kSecond);
  ASSERT_TRUE(Read(FullRequest(), &request).ok());
  EXPECT_EQ(request.model_name, "vit");
  EXPECT_EQ(request.model_version, "3");
  EXPECT_EQ(request.id, "request-17");
  EXPECT_EQ(request.priority, 2u);
  EXPECT_EQ(request.timeout_us, 5'000u);
  EXPECT_EQ(request.deadline, kNever) << "what a timeout means is the model's to say";
  ASSERT_EQ(Tensors(request).size(), 2u);
  EXPECT_EQ(Tensors(request)[0].name, "image");
  EXPECT_EQ(Tensors(request)[0].type, DataType::kBytes);
  EXPECT_THAT(Tensors(request)[0].shape, ElementsAre(2, 1));
  EXPECT_EQ(Text(Tensors(request)[0].data), Framed({"first image", ""}));
  EXPECT_EQ(Tensors(request)[1].name, "pixel_values");
  EXPECT_EQ(Tensors(request)[1].type, DataType::kFp32);
  EXPECT_EQ(Text(Tensors(request)[1].data), "abcdefghijkl");
  ASSERT_EQ(WantedOutputs(request).size(), 2u);
  EXPECT_EQ(WantedOutputs(request)[0].name, "logits");
  EXPECT_EQ(WantedOutputs(request)[0].classification, 3);
  EXPECT_EQ(WantedOutputs(request)[1].classification, 0);
}

TEST(ReadModelInferRequest, SharesTheReceivedBytesAndKeepsThemAlive) {
  InferenceRequest request;
  const std::byte* received = nullptr;
  {
    ModelInferRequest message;
    AddRawInput(message, "image_rgb", "UINT8", {1, 10, 10, 3}, std::string(300, 'x'));
    const TestMessage bytes(message.SerializeAsString());
    received = bytes.bytes().pieces[0].data();
    ASSERT_TRUE(ReadModelInferRequest(bytes.bytes(), AnyModel, &request).ok());
    const auto pieces = Tensors(request)[0].data.pieces();
    ASSERT_EQ(pieces.size(), 1u);
    EXPECT_GT(pieces[0].data(), received);
    EXPECT_LT(pieces[0].data(), received + message.ByteSizeLong());
  }
  EXPECT_EQ(Text(Tensors(request)[0].data), std::string(300, 'x'));
}

TEST(ReadModelInferRequest, PriorityAndTimeoutComeInEitherKindOfInteger) {
  for (const bool as_unsigned : {false, true}) {
    ModelInferRequest message;
    for (const std::string key : {"priority", "timeout"}) {
      if (as_unsigned) {
        (*message.mutable_parameters())[key].set_uint64_param(7);
      } else {
        (*message.mutable_parameters())[key].set_int64_param(7);
      }
    }
    InferenceRequest request;
    ASSERT_TRUE(Read(message, &request).ok());
    EXPECT_EQ(request.priority, 7u);
    EXPECT_EQ(request.timeout_us, 7u);
  }
}

TEST(ReadModelInferRequest, PriorityAndTimeoutAreCounts) {
  for (const std::string key : {"priority", "timeout"}) {
    ModelInferRequest message;
    (*message.mutable_parameters())[key].set_int64_param(-1);
    ExpectRefused(message, kInvalid, "request.parameter", key);
    (*message.mutable_parameters())[key].set_string_param("1");
    ExpectRefused(message, kInvalid, "request.parameter", key);
    (*message.mutable_parameters())[key].set_double_param(1);
    ExpectRefused(message, kInvalid, "request.parameter", key);
  }
}

TEST(ReadModelInferRequest, RefusesBytesThatAreNoMessage) {
  const std::string good = FullRequest().SerializeAsString();
  const std::vector<std::string> bad = {
      "\xFF",
      "hello, world",
      std::string("\x1f\x8b\x08\x00", 4),  // a gzip file
      "\x0A\x05vit",                       // a string that ends too late
      "\x0A\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
      "\x28\x01",                      // inputs as a number
      "\x3A\xFF\xFF\xFF\xFF\x0F",      // a raw input of 4 GiB
      "\x0C",                          // the end of no group
      std::string("\x0A\x01\xFF", 3),  // a name that is not UTF-8
      std::string(200, '\x43'),        // groups 200 deep
      std::string("\x00\x00", 2),      // field 0
  };
  for (const std::string& bytes : bad) {
    InferenceRequest request;
    const absl::Status status = Read(bytes, &request);
    EXPECT_EQ(status.code(), kInvalid) << testing::PrintToString(bytes);
    EXPECT_EQ(ReasonOf(status), "request.malformed");
  }
  // Cut off inside a field of any kind. Where a cut falls between two fields the rest is a message
  // of its own.
  int whole = 0;
  for (size_t length = 0; length < good.size(); ++length) {
    InferenceRequest request;
    ModelInferRequest message;
    const bool parses = message.ParseFromString(good.substr(0, length));
    const absl::Status status = Read(good.substr(0, length), &request);
    if (parses) {
      ++whole;
    } else {
      EXPECT_EQ(ReasonOf(status), "request.malformed") << length;
    }
  }
  EXPECT_LT(whole, 20);
}

TEST(ReadModelInferRequest, TheModelIsJudgedBeforeItsTensorsAreRead) {
  // Contents that are no valid integers, and a model's name and version that come after them.
  const std::string contents = "\x12\x02\x80\x80";
  ModelInferRequest message;
  AddInput(message, "image_rgb", "UINT8", {1});
  std::string input = message.inputs(0).SerializeAsString();
  input += '\x2a';
  input += static_cast<char>(contents.size());
  input += contents;
  std::string bytes = "\x2a";
  bytes += static_cast<char>(input.size());
  bytes += input;
  ModelInferRequest name;
  name.set_model_name("nobody");
  name.set_model_version("3");
  name.set_id("id");
  bytes += name.SerializeAsString();

  int asked = 0;
  const auto refuse = [&asked](const InferenceRequest& head) -> absl::Status {
    ++asked;
    EXPECT_EQ(head.model_name, "nobody");
    EXPECT_EQ(head.model_version, "3");
    EXPECT_TRUE(Tensors(head).empty());
    return NotFound("model.not_found", "no such model");
  };
  InferenceRequest request;
  const absl::Status status = ReadModelInferRequest(TestMessage(bytes).bytes(), refuse, &request);
  EXPECT_EQ(ReasonOf(status), "model.not_found") << status;
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(request.id, "id");
  EXPECT_EQ(Read(bytes, &request).code(), kInvalid) << "and where the model is known, its contents";
}

TEST(ReadModelInferRequest, AnEmptyMessageIsARequestWithoutInputs) {
  InferenceRequest request;
  EXPECT_TRUE(Read("", &request).ok());
  EXPECT_TRUE(Tensors(request).empty());
}

TEST(ReadModelInferRequest, UnknownFieldsAreSkipped) {
  InferenceRequest request;
  std::string bytes = FullRequest().SerializeAsString();
  bytes += "\xFA\x3F\x03xyz";                           // field 1023, bytes
  bytes += std::string("\xC3\x3E\x08\x01\xC4\x3E", 6);  // field 1000, a group
  ASSERT_TRUE(Read(bytes, &request).ok());
  EXPECT_EQ(Tensors(request).size(), 2u);
}

TEST(ReadModelInferRequest, Row7RawAndTypedContentsExcludeEachOther) {
  ModelInferRequest message;
  AddInput(message, "a", "FP32", {1})->mutable_contents()->add_fp32_contents(1);
  message.add_raw_input_contents("1234");
  ExpectRefused(message, kInvalid, "request.two_contents", "'a'");
}

TEST(ReadModelInferRequest, Row7ThereAreAsManyRawContentsAsInputs) {
  ModelInferRequest message;
  AddRawInput(message, "a", "FP32", {1}, "1234");
  message.add_raw_input_contents("1234");
  ExpectRefused(message, kInvalid, "request.raw_count", "2 raw_input_contents for 1 inputs");
  message.clear_raw_input_contents();
  AddInput(message, "b", "FP32", {1});
  message.add_raw_input_contents("1234");
  ExpectRefused(message, kInvalid, "request.raw_count", "1 raw_input_contents for 2 inputs");
}

TEST(ReadModelInferRequest, Row7NamesAreGivenOnce) {
  ModelInferRequest message;
  AddRawInput(message, "a", "FP32", {1}, "1234");
  AddRawInput(message, "a", "FP32", {1}, "1234");
  ExpectRefused(message, kInvalid, "request.input_duplicate", "'a'");

  message = ModelInferRequest();
  message.add_outputs()->set_name("logits");
  message.add_outputs()->set_name("logits");
  ExpectRefused(message, kInvalid, "request.output_duplicate", "'logits'");

  message = ModelInferRequest();
  AddRawInput(message, "", "FP32", {1}, "1234");
  ExpectRefused(message, kInvalid, "request.input_name");
}

TEST(ReadModelInferRequest, Row9ShapesAreOfOneToEightPositiveDimensions) {
  using Shape = std::vector<int64_t>;
  for (const Shape& shape : {Shape{-1}, Shape{0}, Shape{1, 0, 3}, Shape{2, -9}, Shape{INT64_MIN},
                             Shape(9, 1), Shape(1000, 1)}) {
    ModelInferRequest message;
    AddRawInput(message, "a", "FP32", shape, "");
    ExpectRefused(message, kInvalid, "request.shape", "'a'");
  }
  ModelInferRequest message;
  AddRawInput(message, "a", "FP32", Shape(8, 1), "1234");
  InferenceRequest request;
  EXPECT_TRUE(Read(message, &request).ok());
}

TEST(ReadModelInferRequest, Row8AShapeThatOverflowsIsRefused) {
  using Shape = std::vector<int64_t>;
  // 2^4 * (2^60 + 2) is 32 in 64 bits; 2^62 elements of 4 bytes are 0.
  for (const Shape& shape :
       {Shape{16, (int64_t{1} << 60) + 2}, Shape{int64_t{1} << 62}, Shape{INT64_MAX},
        Shape{int64_t{1} << 32, int64_t{1} << 32}, Shape{limits::kMaxMessageBytes}}) {
    ModelInferRequest message;
    AddRawInput(message, "a", "INT32", shape, std::string(128, 'x'));
    ExpectRefused(message, kInvalid, "request.shape", "no message could fill");
    message.clear_raw_input_contents();
    ExpectRefused(message, kInvalid, "request.shape", "no message could fill");
  }
}

TEST(ReadModelInferRequest, Row10DataIsAsLongAsTheShapeSays) {
  for (const size_t length : {0u, 1u, 11u, 13u, 24u}) {
    ModelInferRequest message;
    AddRawInput(message, "a", "FP32", {3}, std::string(length, 'x'));
    ExpectRefused(message, kInvalid, "request.input_size", "its shape says 12");
  }
}

TEST(ReadModelInferRequest, EveryTypeHasItsSize) {
  const std::vector<std::pair<std::string, size_t>> types = {
      {"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8},
      {"INT8", 1}, {"INT16", 2}, {"INT32", 4},  {"INT64", 8},  {"FP16", 2},
      {"BF16", 2}, {"FP32", 4},  {"FP64", 8}};
  for (const auto& [name, size] : types) {
    ModelInferRequest message;
    AddRawInput(message, "a", name, {2, 3}, std::string(6 * size, 'x'));
    InferenceRequest request;
    EXPECT_TRUE(Read(message, &request).ok()) << name;
    message.mutable_raw_input_contents(0)->push_back('x');
    ExpectRefused(message, kInvalid, "request.input_size");
  }
  for (const std::string name : {"", "fp32", "FP8", "STRING", "TYPE_FP32"}) {
    ModelInferRequest message;
    AddRawInput(message, "a", name, {1}, "1234");
    ExpectRefused(message, kInvalid, "request.datatype");
  }
}

TEST(ReadModelInferRequest, Row10BytesElementsFillTheirTensorExactly) {
  const std::string length_past_end = std::string("\x05\0\0\0abcd", 8);
  const std::string all_ones = "\xFF\xFF\xFF\xFF";
  for (const std::string& data : {Framed({"a"}), Framed({"a", "b", "c"}), length_past_end, all_ones,
                                  Framed({"a", "b"}) + "x", std::string()}) {
    ModelInferRequest message;
    AddRawInput(message, "a", "BYTES", {2}, data);
    ExpectRefused(message, kInvalid, "request.bytes_framing");
  }
}

TEST(ReadModelInferRequest, Row52SharedMemoryIsRefusedWhereThereIsNone) {
  ModelInferRequest message;
  auto* input = AddInput(message, "a", "FP32", {1});
  (*input->mutable_parameters())["shared_memory_region"].set_string_param("region");
  ExpectRefused(message, absl::StatusCode::kUnimplemented, "request.shared_memory");

  for (auto* parameters : {message.mutable_parameters(), input->mutable_parameters()}) {
    message.mutable_parameters()->clear();
    input->mutable_parameters()->clear();
    (*parameters)["shared_memory_handle"].set_string_param("of no extension");
    ExpectRefused(message, absl::StatusCode::kUnimplemented, "request.shared_memory");
  }
}

TEST(ReadModelInferRequest, Row51NoUrlIsTakenForAnImage) {
  for (const std::string key : {"url", "image_url", "IMAGE_URL", "uri", "input_uri"}) {
    ModelInferRequest message;
    (*message.mutable_parameters())[key].set_string_param("http://169.254.169.254/");
    ExpectRefused(message, kInvalid, "request.url", "URL inputs are not supported");
    message = ModelInferRequest();
    auto* input = AddInput(message, "image", "BYTES", {1, 1});
    (*input->mutable_parameters())[key].set_string_param("file:///etc/passwd");
    ExpectRefused(message, kInvalid, "request.url");
  }
  ModelInferRequest message;
  (*message.mutable_parameters())["curl"].set_bool_param(true);
  InferenceRequest request;
  EXPECT_TRUE(Read(message, &request).ok());
}

TEST(ReadModelInferRequest, ClassificationIsACount) {
  ModelInferRequest message;
  auto* output = message.add_outputs();
  output->set_name("logits");
  (*output->mutable_parameters())["classification"].set_string_param("3");
  ExpectRefused(message, kInvalid, "request.parameter");
  (*output->mutable_parameters())["classification"].set_int64_param(-1);
  ExpectRefused(message, kInvalid, "request.parameter");
}

TEST(ReadModelInferRequest, CountsAndSizesAreBounded) {
  ModelInferRequest message;
  for (int i = 0; i <= limits::kMaxInputsPerRequest; ++i) {
    AddRawInput(message, "input" + std::to_string(i), "UINT8", {1}, "x");
  }
  InferenceRequest request;
  EXPECT_EQ(Read(message, &request).code(), kInvalid);

  message = ModelInferRequest();
  for (int i = 0; i <= limits::kMaxInputsPerRequest; ++i) {
    message.add_outputs()->set_name("output" + std::to_string(i));
  }
  ExpectRefused(message, kInvalid, "request.output_count");

  message = ModelInferRequest();
  for (int i = 0; i <= limits::kMaxParametersPerRequest; ++i) {
    (*message.mutable_parameters())["parameter" + std::to_string(i)].set_bool_param(true);
  }
  ExpectRefused(message, kInvalid, "request.parameter_count");

  message = ModelInferRequest();
  message.set_id(std::string(limits::kMaxRequestIdBytes + 1, 'x'));
  request = InferenceRequest();
  EXPECT_EQ(ReasonOf(Read(message, &request)), "request.id");
}

TEST(ReadModelInferRequest, WhatIsNoTensorIsBoundedInBytes) {
  ModelInferRequest message;
  message.set_model_name(std::string(limits::kMaxRequestHeaderBytes, 'x'));
  InferenceRequest request;
  EXPECT_EQ(Read(message, &request).code(), absl::StatusCode::kResourceExhausted);

  // Together, not one by one.
  message = ModelInferRequest();
  for (int i = 0; i < 8; ++i) {
    AddRawInput(message, std::string(limits::kMaxRequestHeaderBytes / 7, 'a' + i), "UINT8", {1},
                "x");
  }
  EXPECT_EQ(Read(message, &request).code(), absl::StatusCode::kResourceExhausted);
}

// Docs/faults.md, row 6: two bytes on the wire that would be an object each.
TEST(ReadModelInferRequest, MillionsOfEmptyThingsAreRefusedBeforeAnythingIsMadeOfThem) {
  constexpr int kMillions = 20'000'000;
  const auto repeated = [](std::string_view field) {
    std::string bytes;
    bytes.reserve(kMillions * field.size());
    for (int i = 0; i < kMillions; ++i) bytes += field;
    return bytes;
  };
  using namespace std::string_view_literals;
  // Raw contents, inputs, outputs, and a field that nobody knows.
  for (const std::string_view field : {"\x3A\0"sv, "\x2A\0"sv, "\x32\0"sv, "\x7A\0"sv}) {
    InferenceRequest request;
    EXPECT_FALSE(Read(repeated(field), &request).ok());
  }
  // bytes_contents of an input whose shape owns up to them, and of one whose does not.
  for (const int64_t elements : {int64_t{kMillions}, int64_t{1}}) {
    ModelInferRequest message;
    auto* input = AddInput(message, "image", "BYTES", {elements});
    std::string bytes = input->SerializeAsString();
    const auto append_length = [](std::string* to, size_t length) {
      for (; length >= 0x80; length >>= 7) to->push_back(static_cast<char>(length | 0x80));
      to->push_back(static_cast<char>(length));
    };
    bytes += "\x2A";  // contents
    append_length(&bytes, 2 * kMillions);
    bytes += repeated("\x42\0"sv);
    std::string whole = "\x2A";  // inputs
    append_length(&whole, bytes.size());
    InferenceRequest request;
    EXPECT_EQ(Read(whole + bytes, &request).code(), kInvalid);
  }
}

InferenceResponse Response() {
  InferenceResponse response;
  response.model_name = "vit";
  response.model_version = "3";
  response.id = "request-17";
  response.results =
      TensorResults{{"logits", DataType::kFp32, {1, 2}, "abcdefgh"},
                    {"features", DataType::kUint8, {1, 100'000}, std::string(100'000, 'f')},
                    {"empty", DataType::kUint8, {0}, ""}};
  response.receipt.stages = StageTimes(100);
  response.receipt.stages.EndStage(Stage::kReceive, 110);
  response.receipt.stages.EndStage(Stage::kQueue, 150);
  response.receipt.stages.EndStage(Stage::kCompute, 1150);
  response.receipt.batch_size = 4;
  response.receipt.batch_threads = 2;
  response.receipt.batch_peak_bytes = 123'456;
  response.receipt.padding = 0.25;
  return response;
}

std::string Joined(absl::StatusOr<EncodedMessage> encoded) {
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  EncodedMessage message = *std::move(encoded);
  std::string bytes;
  for (const std::string& chunk : std::move(message).TakeChunks()) bytes += chunk;
  return bytes;
}

TEST(WriteModelInferResponse, WritesOutputsRawAndTheReceiptAsParameters) {
  InferenceResponse response = Response();
  const FakeClock clock(1200);
  ModelInferResponse message;
  ASSERT_TRUE(message.ParseFromString(Joined(WriteModelInferResponse(response, clock))));
  EXPECT_EQ(message.model_name(), "vit");
  EXPECT_EQ(message.model_version(), "3");
  EXPECT_EQ(message.id(), "request-17");
  ASSERT_EQ(message.outputs_size(), 3);
  EXPECT_EQ(message.outputs(0).name(), "logits");
  EXPECT_EQ(message.outputs(0).datatype(), "FP32");
  EXPECT_THAT(message.outputs(0).shape(), ElementsAre(1, 2));
  ASSERT_EQ(message.raw_output_contents_size(), 3);
  EXPECT_EQ(message.raw_output_contents(0), "abcdefgh");
  EXPECT_EQ(message.raw_output_contents(1), std::string(100'000, 'f'));
  EXPECT_EQ(message.raw_output_contents(2), "");

  const auto parameter = [&message](const std::string& key) {
    return message.parameters().at(key).int64_param();
  };
  EXPECT_EQ(parameter("fovea.receive_ns"), 10);
  EXPECT_EQ(parameter("fovea.decode_ns"), 0);
  EXPECT_EQ(parameter("fovea.preprocess_ns"), 0);
  EXPECT_EQ(parameter("fovea.queue_ns"), 40);
  EXPECT_EQ(parameter("fovea.compute_ns"), 1000);
  EXPECT_EQ(parameter("fovea.postprocess_ns"), 0);
  EXPECT_EQ(parameter("fovea.encode_ns"), 50);
  EXPECT_EQ(parameter("fovea.batch_size"), 4);
  EXPECT_EQ(parameter("fovea.batch_threads"), 2);
  EXPECT_EQ(parameter("fovea.batch_peak_bytes"), 123'456);
  EXPECT_EQ(message.parameters().size(), 11u);
  EXPECT_EQ(message.parameters().at("fovea.padding").double_param(), 0.25);
  EXPECT_EQ(response.receipt.stages.total(), 1100) << "the encode stage is in the receipt";
}

TEST(WriteModelInferResponse, AnswersTypedContentsInTheirForm) {
  InferenceResponse response = Response();
  response.typed_contents = true;
  std::get<TensorResults>(response.results)[2].shared_memory = {.region = "r", .byte_size = 8};
  ModelInferResponse message;
  ASSERT_TRUE(message.ParseFromString(Joined(WriteModelInferResponse(response, FakeClock()))));
  EXPECT_EQ(message.raw_output_contents_size(), 0);
  ASSERT_EQ(message.outputs_size(), 3);
  EXPECT_EQ(message.outputs(0).name(), "logits");
  EXPECT_EQ(message.outputs(0).contents().fp32_contents_size(), 2);
  EXPECT_FALSE(message.outputs(2).has_contents());
  EXPECT_EQ(message.id(), "request-17");
  EXPECT_EQ(message.parameters().at("fovea.batch_size").int64_param(), 4);

  InferenceResponse half = Response();
  half.typed_contents = true;
  std::get<TensorResults>(half.results)[0].type = DataType::kFp16;
  ASSERT_TRUE(message.ParseFromString(Joined(WriteModelInferResponse(half, FakeClock()))));
  EXPECT_EQ(message.raw_output_contents_size(), 3) << "there are no typed contents of FP16";
}

TEST(WriteModelInferResponse, TellsWhatAGpuDidStepByStep) {
  InferenceResponse response = Response();
  response.receipt.device_times = DeviceTimes{.h2d = 11, .kernels = 12, .d2h = 13};
  ModelInferResponse message;
  ASSERT_TRUE(message.ParseFromString(Joined(WriteModelInferResponse(response, FakeClock(1200)))));
  EXPECT_EQ(message.parameters().at("fovea.h2d_ns").int64_param(), 11);
  EXPECT_EQ(message.parameters().at("fovea.kernels_ns").int64_param(), 12);
  EXPECT_EQ(message.parameters().at("fovea.d2h_ns").int64_param(), 13);
}

TEST(WriteModelInferResponse, SaysThatAModelIsUntrained) {
  InferenceResponse response = Response();
  response.untrained = true;
  ModelInferResponse message;
  ASSERT_TRUE(message.ParseFromString(Joined(WriteModelInferResponse(response, FakeClock()))));
  EXPECT_TRUE(message.parameters().at("fovea.untrained").bool_param());
}

TEST(WriteModelInferResponse, LargeOutputsAreNotCopied) {
  InferenceResponse response = Response();
  const char* const data = std::get<TensorResults>(response.results)[1].data.data();
  const auto chunks = (*WriteModelInferResponse(response, FakeClock())).TakeChunks();
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[1].data(), data);
}

// As they come of several pictures: one field, whatever the length of its parts.
TEST(WriteModelInferResponse, PartsOfAnOutputFollowEachOtherAndAreNotCopied) {
  InferenceResponse response = Response();
  OutputTensor& output = std::get<TensorResults>(response.results)[1];
  output.further = {"short", std::string(50'000, 'g'), std::string(60'000, 'h'), ""};
  const std::vector<const char*> lie_at = {output.data.data(), output.further[1].data(),
                                           output.further[2].data()};
  const std::vector<std::string> chunks =
      (*WriteModelInferResponse(response, FakeClock())).TakeChunks();
  std::string bytes;
  std::vector<const char*> large;
  for (const std::string& chunk : chunks) {
    bytes += chunk;
    if (chunk.size() >= 50'000) large.push_back(chunk.data());
  }
  EXPECT_EQ(large, lie_at);
  ModelInferResponse message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  ASSERT_EQ(message.raw_output_contents_size(), 3);
  EXPECT_EQ(
      message.raw_output_contents(1),
      std::string(100'000, 'f') + "short" + std::string(50'000, 'g') + std::string(60'000, 'h'));
  EXPECT_EQ(message.raw_output_contents(2), "");
}

TEST(WriteModelInferResponse, Row66AnAnswerLongerThanAMessageIsRefused) {
  InferenceResponse response = Response();
  std::get<TensorResults>(response.results)[1].further = {std::string(50'000, 'g')};
  const auto refused = WriteModelInferResponse(response, FakeClock(), 150'000);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused.status()), "request.answer_too_large");
  EXPECT_EQ(std::get<TensorResults>(response.results)[1].bytes(), 150'000u) << "nothing is taken";
  EXPECT_TRUE(WriteModelInferResponse(response, FakeClock(), 151'000).ok());
}

TEST(WriteStreamResponse, WrapsAnAnswerOrAnError) {
  InferenceResponse response = Response();
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(message.ParseFromString(
      Joined(WriteStreamResponse(*WriteModelInferResponse(response, FakeClock())))));
  EXPECT_EQ(message.error_message(), "");
  EXPECT_EQ(message.infer_response().id(), "request-17");
  EXPECT_EQ(message.infer_response().raw_output_contents(1), std::string(100'000, 'f'));
  const auto is_final = [&] {
    return message.infer_response().parameters().at("triton_final_response").bool_param();
  };
  EXPECT_TRUE(is_final());

  ASSERT_TRUE(message.ParseFromString(
      Joined(WriteStreamError("no such model", "NOT_FOUND", "model.not_found", "request-18"))));
  EXPECT_EQ(message.error_message(), "no such model [NOT_FOUND model.not_found]");
  EXPECT_EQ(message.infer_response().id(), "request-18");
  EXPECT_EQ(message.infer_response().parameters().at("fovea.code").string_param(), "NOT_FOUND");
  EXPECT_TRUE(is_final());
}

}  // namespace
}  // namespace fovea
