// Requests whose tensors lie in shared memory, as gRPC brings them.
#include "server/transport/messages/shared_tensors.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "server/core/clock.h"
#include "tests/server/shared_memory/fake_shared_memory.h"
#include "tests/server/transport/grpc/codec_testing.h"

namespace fovea {
namespace {

using inference::ModelInferRequest;

std::string Joined(EncodedMessage message) {
  std::string bytes;
  for (const std::string& chunk : std::move(message).TakeChunks()) bytes += chunk;
  return bytes;
}

class ReadSharedMemory : public ::testing::Test {
 protected:
  ReadSharedMemory() {
    memory_.Create("/object", "0123456789abcdef");
    EXPECT_TRUE(regions_.Register({"r", "/object", 0, 16}).ok());
    request_.shared_memory = &regions_;
  }

  void Put(ModelInferRequest::InferInputTensor* input, int64_t offset, int64_t size) {
    auto& parameters = *input->mutable_parameters();
    parameters["shared_memory_region"].set_string_param("r");
    parameters["shared_memory_offset"].set_int64_param(offset);
    parameters["shared_memory_byte_size"].set_uint64_param(size);
  }
  std::string Reason(const ModelInferRequest& message) {
    return ReasonOf(Read(message, &request_));
  }

  FakeSharedMemory memory_;
  SharedMemoryRegions regions_{memory_.Opener()};
  InferenceRequest request_;
};

TEST_F(ReadSharedMemory, RawContentsAreOfTheOtherInputs) {
  ModelInferRequest message;
  AddRawInput(message, "a", "FP32", {1}, "ABCD");
  Put(AddInput(message, "b", "INT16", {3}), 2, 6);
  AddRawInput(message, "c", "INT8", {2}, "EF");
  ASSERT_EQ(Reason(message), "");
  memory_.Create("/object", "................");  // what was read is a copy
  const auto& inputs = std::get<NamedTensors>(request_.input);
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_EQ(Text(inputs[0].data), "ABCD");
  EXPECT_EQ(Text(inputs[1].data), "234567");
  EXPECT_EQ(Text(inputs[2].data), "EF");

  message.add_raw_input_contents("one too many");
  EXPECT_EQ(Reason(message), "request.raw_count");
  message.clear_raw_input_contents();
  message.add_raw_input_contents("ABCD");
  EXPECT_EQ(Reason(message), "request.raw_count");
}

TEST_F(ReadSharedMemory, Row52WhatLiesThereIsCheckedAsOtherContentsAre) {
  struct Case {
    std::string type;
    int64_t elements, offset, size;
    std::string reason;
  };
  for (const Case& bad : std::vector<Case>{
           {"FP32", 2, 0, 4, "request.input_size"},
           {"FP32", 1, 0, 8, "request.input_size"},
           {"BYTES", 1, 0, 16, "request.bytes_framing"},
           {"FP32", 1, 13, 4, "shared_memory.range"},
           {"FP32", 1, -1, 4, "shared_memory.range"},
           {"FP32", 1, 0, -1, "shared_memory.range"},
       }) {
    ModelInferRequest message;
    Put(AddInput(message, "a", bad.type, {bad.elements}), bad.offset, bad.size);
    EXPECT_EQ(Reason(message), bad.reason) << bad.type << " " << bad.offset << " " << bad.size;
  }
  ModelInferRequest both;
  auto* input = AddInput(both, "a", "FP32", {1});
  Put(input, 0, 4);
  input->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(Reason(both), "request.two_contents");
  ModelInferRequest other_region;
  Put(AddInput(other_region, "a", "FP32", {1}), 0, 4);
  (*other_region.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param(
      "s");
  EXPECT_EQ(Reason(other_region), "shared_memory.not_registered");
  // Neither text nor a number.
  (*other_region.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_bool_param(
      true);
  EXPECT_EQ(Reason(other_region), "shared_memory.not_registered");
}

TEST_F(ReadSharedMemory, OutputsGoWhereTheRequestSays) {
  ModelInferRequest message;
  AddRawInput(message, "a", "FP32", {1}, "ABCD");
  auto& parameters = *message.add_outputs()->mutable_parameters();
  message.mutable_outputs(0)->set_name("logits");
  parameters["shared_memory_region"].set_string_param("r");
  parameters["shared_memory_offset"].set_int64_param(8);
  parameters["shared_memory_byte_size"].set_int64_param(6);
  ASSERT_EQ(Reason(message), "");
  SharedOutputs shared;
  ASSERT_TRUE(shared.Find(request_).ok());

  InferenceResponse response;
  response.results =
      TensorResults{{.name = "other", .shape = {1}, .data = "WXYZ"},
                    {.name = "logits", .shape = {1}, .data = "AB", .further = {"CD"}}};
  ASSERT_TRUE(shared.Write(response).ok());
  EXPECT_EQ(memory_.Bytes("/object"), "01234567ABCDcdef");
  const std::string bytes = Joined(*WriteModelInferResponse(response, SteadyClock()));
  inference::ModelInferResponse answer;
  ASSERT_TRUE(answer.ParseFromString(bytes));
  // An entry for each output: clients count them.
  ASSERT_EQ(answer.raw_output_contents_size(), 2);
  EXPECT_EQ(answer.raw_output_contents(0), "WXYZ");
  EXPECT_EQ(answer.raw_output_contents(1), "");
  const auto& told = answer.outputs(1).parameters();
  EXPECT_EQ(told.at("shared_memory_region").string_param(), "r");
  EXPECT_EQ(told.at("shared_memory_offset").int64_param(), 8);
  EXPECT_EQ(told.at("shared_memory_byte_size").int64_param(), 4);
}

TEST_F(ReadSharedMemory, Row52WhereOneOutputHasNoRoomNothingIsWritten) {
  request_.options =
      WantedTensors{.outputs = {{.name = "a", .shared_memory = SharedMemorySpan{"r", 0, 4}},
                                {.name = "b", .shared_memory = SharedMemorySpan{"r", 4, 3}}}};
  SharedOutputs shared;
  ASSERT_TRUE(shared.Find(request_).ok());
  InferenceResponse response;
  response.results = TensorResults{{.name = "a", .data = "ABCD"}, {.name = "b", .data = "ABCD"}};
  EXPECT_EQ(ReasonOf(shared.Write(response)), "shared_memory.output_too_small");
  EXPECT_EQ(memory_.Bytes("/object"), "0123456789abcdef");
}

}  // namespace
}  // namespace fovea
