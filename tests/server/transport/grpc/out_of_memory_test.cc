// Docs/faults.md, row 39: memory that cannot be had, between the wire and the stages.
#include <malloc.h>

#include <new>
#include <string>

#include "server/core/request_memory.h"
#include "server/transport/grpc/grpc_message.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/load_codec.h"
#include "server/transport/grpc/stream_places.h"
#include "tests/server/allocation_limit.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

class TransportMemory : public GrpcServerTest {
 protected:
  // The call's code; the caller's own messages are made before.
  grpc::StatusCode Call(const std::string& method, const std::string& message) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    const grpc::Status status = CallRaw(method, message, nullptr, &context);
    reason_ = ReasonTold(context);
    return status.error_code();
  }
  std::string reason_;
};

TEST_F(TransportMemory, ATensorThatCannotBeConvertedFailsItsRequestAlone) {
  inference::ModelInferRequest request = SmallRequest();
  request.clear_raw_input_contents();
  auto* input = request.mutable_inputs(0);
  // A byte on the wire becomes two: what the caller sends fits, what the server makes of it does
  // not.
  constexpr int kElements = 3 << 19;
  input->set_datatype("UINT16");
  input->set_shape(0, kElements);
  input->mutable_contents()->mutable_uint_contents()->Resize(kElements, 1);
  const std::string message = request.SerializeAsString();
  const std::string method = "/inference.GRPCInferenceService/ModelInfer";
  {
    const AllocationLimit none_left(2 << 20);
    EXPECT_EQ(Call(method, message), grpc::UNAVAILABLE);
    EXPECT_EQ(reason_, "server.out_of_memory");
    EXPECT_GE(none_left.refused(), 1);
  }
  EXPECT_EQ(Call(method, message), grpc::OK);
  EXPECT_EQ(server_->Shutdown(0), 0) << "nothing is still under way";
}

TEST_F(TransportMemory, ALoadThatCannotBeReadFailsAloneAndHoldsNothing) {
  Start({.port = 0}, {.request_bytes = 16 << 20});
  // Protobuf keeps what it does not know, and most of it in one vector.
  std::string message = "\x12\x03vit";
  while (message.size() < 100'000) message += std::string("\x7a\x00", 2);  // an empty string 15
  const std::string method = "/inference.GRPCInferenceService/RepositoryModelLoad";
  {
    const AllocationLimit none_left(200'000);
    for (int i = 0; i < 20; ++i) {  // which would hold six times what there is
      EXPECT_EQ(Call(method, message), grpc::UNAVAILABLE);
      EXPECT_EQ(reason_, "server.out_of_memory");
    }
    EXPECT_GE(none_left.refused(), 20);
  }
  EXPECT_EQ(Call(method, message), grpc::OK);
}

// Whichever of its allocations fails.
TEST(StreamPlaces, APlaceThatThereIsNoMemoryForIsNotTaken) {
  StreamPlaces places(2, 2);
  const std::string connection = "ipv4:1";  // too short to need an allocation
  places.Take(connection);                  // has made the table of connections
  int refused = 0;
  for (size_t bytes = 1; bytes < 1000; ++bytes) {
    try {
      const AllocationLimit none_left(bytes);
      places.Take(connection);
    } catch (const std::bad_alloc&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  const StreamPlaces::Place one = places.Take(connection), other = places.Take(connection);
  EXPECT_TRUE(one && other && !places.Take(connection));
}

TEST(LoadRequestMemory, KeepsNoRoomForWhatAMessageDoesNotKnow) {
  std::string bytes = "\x12\x03vit";
  while (bytes.size() < 100'000) bytes += std::string("\x7a\x00", 2);  // an empty string 15
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer buffer(&slice, 1);
  MemoryBudget budget(16 << 20, SteadyClock());
  RequestMemory memory(budget);
  const ReceivedBytes message = *ReceiveMessage(buffer, 1 << 20);
  const auto allocated = [] {
    return static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd);
  };
  const int64_t before = allocated();
  const absl::StatusOr<LoadCall> load = ReadLoadRequest(message, memory);
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->model_name, "vit");
  EXPECT_LT(allocated() - before, 10'000);
  EXPECT_EQ(memory.bytes(), 0);
}

}  // namespace
}  // namespace fovea
