// gRPC's requests: the first byte says which message, the second how the socket cut it.
#include "server/transport/grpc/oip_codec.h"

#include <random>

#include "server/core/clock.h"
#include "server/transport/grpc/load_codec.h"
#include "server/transport/grpc/stream_codec.h"
#include "server/transport/grpc/vision_codec.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/transport/grpc/codec_testing.h"

namespace fovea {
namespace {

absl::Status ReadMessage(int kind, const ReceivedBytes& bytes, InferenceRequest* request) {
  std::optional<AnswerOrder> order;
  switch (kind % 6) {
    case 0:
      return ReadModelInferRequest(bytes, AnyModel, request);
    case 1:
      return ReadClassifyRequest(bytes, AnyModel, request);
    case 2:
      return ReadDetectRequest(bytes, AnyModel, request);
    case 3:
      return ReadSegmentRequest(bytes, AnyModel, request);
    default:
      return ReadStreamImagesRequest(bytes, AnyModel, request, &order);
  }
}

// A load's files, and the largest once more, are all that it goes on counting.
void CheckLoads(const ReceivedBytes& whole, const ReceivedBytes& pieces) {
  MemoryBudget budget(64 << 20, SteadyClock());
  RequestMemory memory(budget), other_memory(budget);
  const absl::StatusOr<LoadCall> load = ReadLoadRequest(whole, memory);
  const absl::StatusOr<LoadCall> other = ReadLoadRequest(pieces, other_memory);
  FOVEA_CHECK(load.status() == other.status());
  if (!load.ok()) return;
  int64_t kept = 0;
  for (const LoadCall::Parameter& parameter : load->parameters) {
    FOVEA_CHECK(!parameter.text || !parameter.bytes);
    kept += static_cast<int64_t>(parameter.name.size() + parameter.text.value_or("").size() +
                                 parameter.bytes.value_or("").size());
  }
  kept += load->LargestFile();
  FOVEA_CHECK(memory.bytes() == kept && other_memory.bytes() == kept);
}

// What a request that was accepted promises the stages behind.
void CheckAccepted(const InferenceRequest& request) {
  const auto* tensors = std::get_if<NamedTensors>(&request.input);
  if (tensors == nullptr) return;
  for (const InputTensor& tensor : *tensors) {
    const std::optional<int64_t> elements = ElementCount(tensor.shape);
    FOVEA_CHECK(elements && *elements > 0);
    const size_t size = ElementSize(tensor.type);
    FOVEA_CHECK(size == 0 || tensor.data.size() == size * *elements);
    Text(tensor.data);  // every byte is there
  }
}

}  // namespace

FOVEA_FUZZ_TARGET(oip_codec, input) {
  const int kind = input.TakeByte();
  const int cut = input.TakeByte();
  std::mt19937 random(cut);
  const TestMessage whole(input.rest());
  const TestMessage pieces(input.rest(), &random, 1 + cut % 16);
  if (kind % 6 == 5) return CheckLoads(whole.bytes(), pieces.bytes());
  InferenceRequest of_whole, of_pieces;
  const absl::Status read = ReadMessage(kind, whole.bytes(), &of_whole);
  const absl::Status read_pieces = ReadMessage(kind, pieces.bytes(), &of_pieces);
  FOVEA_CHECK(read == read_pieces);  // how the socket cut it changes nothing
  FOVEA_CHECK(of_whole.id == of_pieces.id);
  if (read.ok()) CheckAccepted(of_pieces);
}

}  // namespace fovea
