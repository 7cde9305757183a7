// The codecs against bytes that nobody meant: cut anywhere, and changed anywhere. Seeded, so that a
// failure repeats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/status.h"
#include "proto/fovea/v1/vision.pb.h"
#include "server/transport/grpc/stream_codec.h"
#include "server/transport/grpc/vision_codec.h"
#include "tests/server/transport/grpc/codec_testing.h"

namespace fovea {
namespace {

using ::testing::Each;
using ::testing::Gt;

// Messages that between them have every field, raw and typed.
std::vector<std::string> Corpus() {
  std::vector<std::string> corpus = {FullRequest().SerializeAsString()};
  inference::ModelInferRequest typed;
  typed.set_model_name("vit");
  auto* contents = AddInput(typed, "a", "INT16", {2, 2})->mutable_contents();
  for (const int value : {1, -1, 300, -32768}) contents->add_int_contents(value);
  contents = AddInput(typed, "b", "FP32", {3})->mutable_contents();
  for (const float value : {1.f, 2.f, 3.f}) contents->add_fp32_contents(value);
  contents = AddInput(typed, "c", "BYTES", {2, 1})->mutable_contents();
  for (const char* value : {"some bytes", ""}) contents->add_bytes_contents(value);
  contents = AddInput(typed, "d", "UINT64", {1})->mutable_contents();
  contents->add_uint64_contents(UINT64_MAX);
  contents = AddInput(typed, "e", "BOOL", {2})->mutable_contents();
  for (const bool value : {true, false}) contents->add_bool_contents(value);
  contents = AddInput(typed, "f", "FP64", {1})->mutable_contents();
  contents->add_fp64_contents(-1);
  corpus.push_back(typed.SerializeAsString());
  v1::ClassifyRequest classify;
  classify.set_model_name("vit");
  classify.set_id("id");
  classify.set_top_k(2);
  classify.add_images("an image");
  classify.add_images("");
  corpus.push_back(classify.SerializeAsString());
  v1::DetectRequest detect;
  detect.set_model_name("finder");
  detect.set_model_version("2");
  detect.set_id("id");
  detect.add_images("an image");
  detect.add_images("");
  detect.set_score_threshold(0.25F);
  detect.set_priority(1);
  detect.set_max_detections(7);
  for (const char* name : {"cat", "3"}) detect.add_classes(name);
  detect.set_mask_format(v1::DetectRequest::PNG);
  corpus.push_back(detect.SerializeAsString());
  v1::SegmentRequest segment;
  segment.set_model_name("mapper");
  segment.set_model_version("2");
  segment.set_id("id");
  segment.add_images("an image");
  segment.set_map_format(v1::SegmentRequest::RUN_LENGTHS);
  segment.set_priority(3);
  segment.set_confidence(true);
  corpus.push_back(segment.SerializeAsString());
  v1::StreamImagesRequest streamed;
  streamed.set_timeout_us(1000);
  streamed.set_order(v1::StreamImagesRequest::AS_THEY_COME);
  *streamed.mutable_classify() = classify;
  corpus.push_back(streamed.SerializeAsString());
  *streamed.mutable_detect() = detect;
  corpus.push_back(streamed.SerializeAsString());
  *streamed.mutable_segment() = segment;
  corpus.push_back(streamed.SerializeAsString());
  return corpus;
}

using Reader = absl::Status (*)(const ReceivedBytes&, CheckModel, InferenceRequest*);
absl::Status ReadStreamed(const ReceivedBytes& message, CheckModel check_model,
                          InferenceRequest* request) {
  std::optional<AnswerOrder> order;
  return ReadStreamImagesRequest(message, check_model, request, &order);
}

constexpr Reader kReaders[] = {ReadModelInferRequest, ReadClassifyRequest, ReadDetectRequest,
                               ReadSegmentRequest, ReadStreamed};

std::string TextOf(const RequestOptions& options) {
  std::string text = "|" + std::to_string(options.index());
  if (const auto* classify = std::get_if<ClassifyOptions>(&options)) {
    text += "|" + std::to_string(classify->top_k);
  } else if (const auto* detect = std::get_if<DetectOptions>(&options)) {
    text += "|" + std::to_string(detect->score_threshold) + "|" +
            std::to_string(detect->max_detections) + "|" +
            std::to_string(static_cast<int>(detect->masks));
    for (const std::string& name : detect->classes) text += "|" + name;
  } else if (const auto* segment = std::get_if<SegmentOptions>(&options)) {
    text += "|" + std::to_string(static_cast<int>(segment->format)) + "|" +
            std::to_string(segment->confidence);
  }
  return text;
}

// Everything that a reader gives, as one text.
std::string Outcome(Reader read, const TestMessage& message) {
  InferenceRequest request;
  const absl::Status status = read(message.bytes(), AnyModel, &request);
  std::string outcome = status.ToString() + "|" + request.id;
  if (!status.ok()) return outcome;
  outcome += "|" + request.model_name + "|" + request.model_version + "|" +
             std::to_string(request.priority) + "|" + std::to_string(request.deadline);
  if (const auto* images = std::get_if<ImageFiles>(&request.input)) {
    outcome += TextOf(request.options);
    for (const ScatteredBytes& file : images->files) outcome += "|" + Text(file);
    return outcome;
  }
  for (const InputTensor& input : Tensors(request)) {
    outcome += "|" + input.name + "|" + std::string(DataTypeName(input.type));
    for (const int64_t dimension : input.shape)
      outcome.append(",").append(std::to_string(dimension));
    outcome += "|" + Text(input.data);
  }
  for (const RequestedOutput& output : WantedOutputs(request)) {
    outcome += "|" + output.name + "|" + std::to_string(output.classification);
  }
  return outcome;
}

std::string Mutated(std::string bytes, const std::vector<std::string>& corpus,
                    std::mt19937& random) {
  const auto below = [&random](size_t limit) { return limit == 0 ? 0 : random() % limit; };
  // Values at the edges of lengths, counts and varints.
  constexpr unsigned char kInteresting[] = {0x00, 0x01, 0x7F, 0x80, 0xFF, 0x2A, 0x3A, 0x42, 0x22};
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t at = below(bytes.size());
    switch (below(7)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        if (!bytes.empty())
          bytes[at] = static_cast<char>(kInteresting[below(sizeof(kInteresting))]);
        break;
      case 3:
        bytes.erase(at, below(8));
        break;
      case 4:
        bytes.insert(at, below(8), static_cast<char>(kInteresting[below(sizeof(kInteresting))]));
        break;
      case 5:
        bytes.resize(at);
        break;
      case 6: {
        const std::string& other = corpus[below(corpus.size())];
        bytes.insert(at, other.substr(below(other.size()), below(40)));
        break;
      }
    }
  }
  return bytes;
}

TEST(Codecs, ReadTheSameHoweverTheBytesAreCut) {
  std::mt19937 random(20'240'601);
  for (const std::string& bytes : Corpus()) {
    for (const Reader read : kReaders) {
      const std::string whole = Outcome(read, TestMessage(bytes));
      for (int round = 0; round < 300; ++round) {
        const size_t longest = 1 + random() % (round % 2 == 0 ? 3 : bytes.size());
        ASSERT_EQ(Outcome(read, TestMessage(bytes, &random, longest)), whole);
      }
    }
  }
}

TEST(Codecs, AnswerWhateverBytesComeWithAStatus) {
  const std::vector<std::string> corpus = Corpus();
  std::mt19937 random(20'240'602);
  // Of each reader.
  std::array<int, std::size(kReaders)> accepted = {}, refused = {};
  for (int round = 0; round < 250'000; ++round) {
    const std::string bytes = Mutated(corpus[round % corpus.size()], corpus, random);
    for (size_t i = 0; i < std::size(kReaders); ++i) {
      const Reader read = kReaders[i];
      const std::string outcome = Outcome(read, TestMessage(bytes));
      // Only these three are ever a codec's: anything else would blame the server for a caller's
      // bytes.
      const bool ok = outcome.starts_with("OK");
      ASSERT_TRUE(ok || outcome.starts_with("INVALID_ARGUMENT") ||
                  outcome.starts_with("UNIMPLEMENTED"))
          << outcome;
      (ok ? accepted : refused)[i] += 1;
      if (round % 16 == 0) {
        ASSERT_EQ(Outcome(read, TestMessage(bytes, &random, 5)), outcome);
      }
    }
  }
  // The mutations are worth something only when they get past the first bytes and yet do harm.
  EXPECT_THAT(accepted, Each(Gt(1000)));
  EXPECT_THAT(refused, Each(Gt(1000)));
}

const std::string kForever = std::to_string(kNever);

// Each reads the message that is its own, and of it all that was set.
TEST(Codecs, ReadWhatWasSet) {
  const std::vector<std::string> corpus = Corpus();
  const auto outcome = [&](Reader read, size_t message) {
    return Outcome(read, TestMessage(corpus.at(message)));
  };
  EXPECT_EQ(outcome(ReadClassifyRequest, 2), "OK|id|vit||0|" + kForever + "|1|2|an image|");
  EXPECT_EQ(outcome(ReadDetectRequest, 3),
            "OK|id|finder|2|1|" + kForever + "|2|0.250000|7|2|cat|3|an image|");
  EXPECT_EQ(outcome(ReadSegmentRequest, 4), "OK|id|mapper|2|3|" + kForever + "|3|1|1|an image");
}

// What protobuf itself cannot read, the codec does not accept.
TEST(Codecs, AcceptNothingThatProtobufRefuses) {
  const std::vector<std::string> corpus = Corpus();
  std::mt19937 random(20'240'603);
  int parsed = 0;
  for (int round = 0; round < 100'000; ++round) {
    const std::string bytes = Mutated(corpus[round % 2], corpus, random);
    inference::ModelInferRequest message;
    InferenceRequest request;
    const bool valid = message.ParseFromString(bytes);
    parsed += valid;
    const absl::Status status = Read(bytes, &request);
    if (!valid) {
      ASSERT_FALSE(status.ok()) << testing::PrintToString(bytes);
    }
    if (status.ok()) {
      ASSERT_EQ(Tensors(request).size(), static_cast<size_t>(message.inputs_size()));
      ASSERT_EQ(request.model_name, message.model_name());
      for (int i = 0; i < message.raw_input_contents_size(); ++i) {
        ASSERT_EQ(Text(Tensors(request)[i].data), message.raw_input_contents(i));
      }
    }
  }
  EXPECT_GT(parsed, 1000);
}

}  // namespace
}  // namespace fovea
