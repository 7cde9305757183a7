// What one caller can do to the server. The numbers are the rows of docs/faults.md.
#include "base/limits.h"

#include <grpc/compression.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/stream_places.h"
#include "tests/resident_bytes.h"
#include "tests/server/transport/grpc/raw_http2.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

class TransportLimits : public GrpcServerTest {
 protected:
  grpc::Status Infer(const ModelInferRequest& request, grpc::ClientContext* context) {
    ModelInferResponse response;
    return stub_->ModelInfer(context, request, &response);
  }

  void ExpectStillServing() {
    grpc::ClientContext context;
    const grpc::Status status = Infer(SmallRequest(), &context);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  static ModelInferRequest RequestOf(std::string data) {
    ModelInferRequest request = SmallRequest();
    request.mutable_inputs(0)->set_datatype("UINT8");
    request.mutable_inputs(0)->set_shape(0, data.size());
    request.set_raw_input_contents(0, std::move(data));
    return request;
  }
};

std::string Noise(size_t size) {
  std::mt19937 random(5);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Row 99.
TEST(StreamPlaces, AreOfAllAndOfEachConnection) {
  const auto taken = [](StreamPlaces& places, bool one_connection) {
    std::vector<StreamPlaces::Place> held;
    for (;;) {
      auto place = places.Take(one_connection ? "one" : std::to_string(held.size()));
      if (place == nullptr) return held.size();
      held.push_back(std::move(place));
    }
  };
  StreamPlaces watches(limits::kMaxHealthWatches, limits::kMaxHealthWatchesPerConnection);
  EXPECT_EQ(taken(watches, /*one_connection=*/true), 64u);
  EXPECT_EQ(taken(watches, /*one_connection=*/false), 4096u);
  StreamPlaces reflection(limits::kMaxReflectionStreams,
                          limits::kMaxReflectionStreamsPerConnection);
  EXPECT_EQ(taken(reflection, /*one_connection=*/true), 16u);
  EXPECT_EQ(taken(reflection, /*one_connection=*/false), 256u);
}

// Row 2.
TEST_F(TransportLimits, DeeplyNestedGroupsAreMalformed) {
  EXPECT_EQ(CallRaw("/inference.GRPCInferenceService/ModelInfer", std::string(100'000, '\x43'))
                .error_code(),
            grpc::INVALID_ARGUMENT);
  ExpectStillServing();
}

// Row 3. gRPC 1.51 ends the offender's connection with the call.
TEST_F(TransportLimits, HeadersAreBounded) {
  const auto call_with = [this](const std::vector<std::pair<std::string, std::string>>& headers) {
    for (int attempt = 1;; ++attempt) {
      auto stub = inference::GRPCInferenceService::NewStub(NewChannel());
      grpc::ClientContext context;
      for (const auto& [name, value] : headers) context.AddMetadata(name, value);
      ModelInferResponse response;
      const auto code = stub->ModelInfer(&context, SmallRequest(), &response).error_code();
      // The caller may hear of the connection's end before it hears of the call's.
      if (code != grpc::UNAVAILABLE || attempt == 10) return code;
    }
  };
  const std::string too_long(limits::kMaxMetadataBytes + 1000, 'x');
  EXPECT_EQ(call_with({{"x-long", too_long}}), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(call_with({{"x-long-bin", too_long}}), grpc::RESOURCE_EXHAUSTED);
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 400; ++i) many.emplace_back("x-header-" + std::to_string(i), "some value");
  EXPECT_EQ(call_with(many), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(call_with({{"x-header", std::string(4000, 'x')}}), grpc::OK);
  ExpectStillServing();
}

// Row 4.
TEST_F(TransportLimits, MessagesAreBounded) {
  Start({.port = 0, .max_message_bytes = 1 << 20});
  grpc::ClientContext contexts[2];
  EXPECT_EQ(Infer(RequestOf(std::string(1 << 20, 'x')), &contexts[0]).error_code(),
            grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Infer(RequestOf(std::string((1 << 20) - 200, 'x')), &contexts[1]).ok());
  // Requests without tensors have bounds of their own.
  const auto code = [this](const std::string& method, int64_t bytes) {
    return CallRaw("/inference.GRPCInferenceService/" + method,
                   std::string(static_cast<size_t>(bytes), '\x0A'))
        .error_code();
  };
  for (const char* const method : {"ServerLive", "RepositoryIndex", "RepositoryModelUnload"}) {
    EXPECT_EQ(code(method, limits::kMaxControlMessageBytes + 1), grpc::RESOURCE_EXHAUSTED)
        << method;
  }
  EXPECT_EQ(code("RepositoryModelLoad", limits::kMaxControlMessageBytes + 1),
            grpc::INVALID_ARGUMENT);
  Start({.port = 0});
  // Whole fields of twelve bytes each.
  EXPECT_EQ(code("RepositoryModelLoad", limits::kMaxLoadTextBytes / 12 * 12 + 12),
            grpc::RESOURCE_EXHAUSTED);
  ExpectStillServing();
}

// Promise 6: protobuf keeps what it does not know, at many times its length.
TEST_F(TransportLimits, WhatALoadDoesNotKnowIsCountedAndNotKept) {
  std::string message = "\x12\x03vit";
  while (message.size() < 120'000) message += std::string("\x7a\x00", 2);  // an empty string 15
  constexpr char kLoad[] = "/inference.GRPCInferenceService/RepositoryModelLoad";
  Start({.port = 0}, {.request_bytes = 4 << 20});
  EXPECT_EQ(CallRaw(kLoad, message).error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(CallRaw(kLoad, message.substr(0, 5)).ok());
  Start({.port = 0}, {.request_bytes = 40 << 20});
  catalog_.BlockLoads();
  const int before = catalog_.loads_begun();
  std::vector<std::thread> callers;
  std::atomic<int> loaded = 0;
  for (int i = 0; i < 20; ++i) {  // as they were read, together twice what there is
    callers.emplace_back([&] {
      const grpc::Status status = CallRaw(kLoad, message);
      loaded += status.ok();
      // Those that are read at the same time may not fit.
      EXPECT_TRUE(status.ok() || status.error_code() == grpc::UNAVAILABLE);
    });
    EXPECT_TRUE(Eventually([&] {
      return catalog_.loads_begun() - before == std::min(i + 1, limits::kRepositoryCallThreads);
    }));
  }
  catalog_.UnblockLoads();
  for (std::thread& caller : callers) caller.join();
  EXPECT_GE(loaded, 10);
  ExpectStillServing();
}

// Row 5.
TEST_F(TransportLimits, CompressedRequestsAreReadLikeAnyOther) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    for (const std::string& data :
         {std::string(3'000'000, 'x'), Noise(300'000), std::string("1")}) {
      grpc::ClientContext context;
      context.set_compression_algorithm(algorithm);
      ModelInferResponse response;
      const grpc::Status status = stub_->ModelInfer(&context, RequestOf(data), &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_TRUE(response.raw_output_contents(0) == data);
    }
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    inference::ModelReadyRequest request;
    request.set_name(std::string(2000, 'x'));
    inference::ModelReadyResponse response;
    EXPECT_TRUE(stub_->ModelReady(&context, request, &response).ok());
  }
}

TEST_F(TransportLimits, ACompressedMessageMayNotSwell) {
  const ModelInferRequest bomb =
      RequestOf(std::string(limits::kMaxDecompressedMessageBytes + (16 << 20), '\0'));
  const int64_t before = ResidentBytesInUse();
  int64_t most = 0;
  for (int round = 0; round < 2; ++round) {
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    const grpc::Status status = Infer(bomb, &context);
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_EQ(ReasonTold(context), "request.decompressed_too_large");
    most = std::max(most, ResidentBytesInUse() - before);
  }
  // Client and server are one process: the client's copies are in it, the server's unpacked message
  // is not.
  if (kFreedMemoryIsGivenBack) {
    EXPECT_LT(most, int64_t{350} << 20);
  }
  ExpectStillServing();
}

TEST_F(TransportLimits, CompressedBytesThatDoNotUnpackAreInvalid) {
  const auto call = [this](const std::string& packed) {
    return RawCall(server_->port(), "/inference.GRPCInferenceService/ServerLive",
                   {{"grpc-encoding", "gzip"}}, packed, /*compressed=*/true);
  };
  // gzip of an empty message.
  const std::string empty("\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 20);
  EXPECT_EQ(call(empty), grpc::OK);
  for (const std::string& bad : {std::string("no gzip file"), empty.substr(0, 15),
                                 empty.substr(0, 3), empty + "more", empty + empty}) {
    EXPECT_EQ(call(bad), grpc::INVALID_ARGUMENT) << bad.size();
  }
  ExpectStillServing();
}

// Row 38, in the small: a connection that resets its calls as fast as it can harms nobody else.
TEST_F(TransportLimits, CallsResetAtOnceDoNoHarm) {
  for (int i = 0; i < 20; ++i) {
    RawConnection connection(server_->port());
    connection.Send(Http2Preface());
    for (int stream = 1; stream < 200; stream += 2) {
      constexpr int kRstStream = 3;
      connection.Send(CallHeaders("/inference.GRPCInferenceService/ModelInfer", stream) +
                      CallMessage(SmallRequest().SerializeAsString(), false, stream) +
                      Http2Frame(kRstStream, 0, stream, std::string("\0\0\0\x08", 4)));
    }
  }
  ExpectStillServing();
}

// Row 37: each frame's piece of a message costs memory of its own.
TEST_F(TransportLimits, AMessageInTinyPiecesIsRefused) {
  const auto infer = [this](size_t frame_bytes) {
    inference::ModelInferRequest request = RequestOf(std::string(20'000, 'x'));
    return RawCall(server_->port(), "/inference.GRPCInferenceService/ModelInfer", {},
                   request.SerializeAsString(), /*compressed=*/false, frame_bytes);
  };
  EXPECT_EQ(infer(1), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(infer(16), grpc::OK);
  ExpectStillServing();
}

// Row 37, in the small: bytes that are no HTTP/2 at all.
TEST_F(TransportLimits, OtherProtocolsAreHungUpOn) {
  RawConnection connection(server_->port());
  connection.Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  connection.ReceiveUntil("");
  EXPECT_TRUE(connection.closed());
  ExpectStillServing();
}

// Row 1: the frame says more than there is.
TEST_F(TransportLimits, ACallThatEndsInsideItsMessageHarmsNobody) {
  RawConnection connection(server_->port());
  const std::string whole = CallMessage(SmallRequest().SerializeAsString(), false, 1);
  connection.Send(Http2Preface() + CallHeaders("/inference.GRPCInferenceService/ModelInfer", 1) +
                  whole.substr(0, whole.size() - 5));
  ExpectStillServing();
}

}  // namespace
}  // namespace fovea
