// Encoded messages for the codecs' tests: whole, and cut as a socket might cut them.
#pragma once

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "proto/inference/inference.pb.h"
#include "server/transport/grpc/oip_codec.h"

namespace fovea {

// Received bytes that own their pieces.
class TestMessage {
 public:
  explicit TestMessage(std::string_view bytes) : TestMessage(bytes, nullptr, bytes.size()) {}

  // In pieces of up to `longest` bytes, some empty, each in memory of its own (a read past its end
  // is one that AddressSanitizer sees).
  TestMessage(std::string_view bytes, std::mt19937* random, size_t longest)
      : owner_(std::make_shared<std::vector<std::unique_ptr<std::byte[]>>>()) {
    for (size_t at = 0; at < bytes.size();) {
      const size_t wanted = random != nullptr ? (*random)() % (longest + 1) : longest;
      const size_t length = std::min(wanted, bytes.size() - at);
      owner_->push_back(std::make_unique<std::byte[]>(length));
      std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + at, length,
                  owner_->back().get());
      pieces_.emplace_back(owner_->back().get(), length);
      at += length;
    }
  }

  ReceivedBytes bytes() const { return {pieces_, owner_}; }

 private:
  std::shared_ptr<std::vector<std::unique_ptr<std::byte[]>>> owner_;
  std::vector<ScatteredBytes::Piece> pieces_;
};

inline std::string Text(const ScatteredBytes& bytes) {
  std::string text(bytes.size(), '\0');
  bytes.CopyTo(0, bytes.size(), text.data());
  return text;
}

// The elements of a BYTES tensor.
inline std::string Framed(const std::vector<std::string>& elements) {
  std::string data;
  for (const std::string& element : elements) {
    const auto size = static_cast<uint32_t>(element.size());
    data.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(element);
  }
  return data;
}

inline inference::ModelInferRequest::InferInputTensor* AddInput(
    inference::ModelInferRequest& request, std::string name, std::string datatype,
    std::vector<int64_t> shape) {
  auto* input = request.add_inputs();
  input->set_name(std::move(name));
  input->set_datatype(std::move(datatype));
  input->mutable_shape()->Add(shape.begin(), shape.end());
  return input;
}

inline void AddRawInput(inference::ModelInferRequest& request, std::string name,
                        std::string datatype, std::vector<int64_t> shape, std::string data) {
  AddInput(request, std::move(name), std::move(datatype), std::move(shape));
  request.add_raw_input_contents(std::move(data));
}

// Everything that a request can have.
inline inference::ModelInferRequest FullRequest() {
  inference::ModelInferRequest request;
  request.set_model_name("vit");
  request.set_model_version("3");
  request.set_id("request-17");
  (*request.mutable_parameters())["priority"].set_uint64_param(2);
  (*request.mutable_parameters())["timeout"].set_int64_param(5000);
  (*request.mutable_parameters())["tenant"].set_string_param("unknown parameters are ignored");
  AddRawInput(request, "image", "BYTES", {2, 1}, Framed({"first image", ""}));
  AddRawInput(request, "pixel_values", "FP32", {1, 3}, "abcdefghijkl");
  auto* logits = request.add_outputs();
  logits->set_name("logits");
  (*logits->mutable_parameters())["classification"].set_int64_param(3);
  request.add_outputs()->set_name("features");
  return request;
}

inline absl::Status AnyModel(const InferenceRequest&) { return absl::OkStatus(); }

inline absl::Status Read(std::string_view bytes, InferenceRequest* request) {
  return ReadModelInferRequest(TestMessage(bytes).bytes(), AnyModel, request);
}
inline absl::Status Read(const inference::ModelInferRequest& message, InferenceRequest* request) {
  return Read(message.SerializeAsString(), request);
}

// Of a request that came as tensors.
inline const NamedTensors& Tensors(const InferenceRequest& request) {
  return std::get<NamedTensors>(request.input);
}
inline const std::vector<RequestedOutput>& WantedOutputs(const InferenceRequest& request) {
  return std::get<WantedTensors>(request.options).outputs;
}

}  // namespace fovea
