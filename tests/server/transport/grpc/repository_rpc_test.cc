// The model repository's RPCs: what waits for a disk holds up nothing else.
#include <atomic>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

using namespace inference;  // NOLINT: the protocol's messages are the test's words

class RepositoryRpc : public GrpcServerTest {
 protected:
  grpc::Status Load() {
    RepositoryModelLoadRequest request;
    request.set_model_name("vit");
    RepositoryModelLoadResponse loaded;
    grpc::ClientContext context;
    return stub_->RepositoryModelLoad(&context, request, &loaded);
  }
  // So many callers, each of a load.
  std::vector<std::thread> Loads(int count) {
    std::vector<std::thread> callers;
    for (int i = 0; i < count; ++i) callers.emplace_back([this] { EXPECT_TRUE(Load().ok()); });
    return callers;
  }
};

TEST_F(RepositoryRpc, TheIndexListsEveryModelOrTheReadyOnes) {
  RepositoryIndexResponse index;
  RepositoryIndexRequest request;
  grpc::ClientContext contexts[3];
  ASSERT_TRUE(stub_->RepositoryIndex(&contexts[0], request, &index).ok());
  ASSERT_EQ(index.models_size(), 4);
  EXPECT_EQ(index.models(0).state(), "UNAVAILABLE");
  EXPECT_EQ(index.models(0).reason(), "its weights are missing");
  EXPECT_EQ(index.models(1).state(), "LOADING");
  EXPECT_EQ(index.models(2).name(), "vit");
  EXPECT_EQ(index.models(2).version(), "1");
  EXPECT_EQ(index.models(2).state(), "READY");
  EXPECT_EQ(index.models(3).state(), "UNLOADING");
  request.set_ready(true);
  ASSERT_TRUE(stub_->RepositoryIndex(&contexts[1], request, &index).ok());
  ASSERT_EQ(index.models_size(), 1);
  request.set_repository_name("other");
  EXPECT_EQ(stub_->RepositoryIndex(&contexts[2], request, &index).error_code(),
            grpc::UNIMPLEMENTED);
}

TEST_F(RepositoryRpc, ModelsAreLoadedAndUnloaded) {
  RepositoryModelLoadRequest load;
  load.set_model_name("vit");
  (*load.mutable_parameters())["config"].set_string_param("{\"max_batch_size\": 2}");
  RepositoryModelLoadResponse loaded;
  RepositoryModelUnloadRequest unload;
  unload.set_model_name("vit");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(true);
  RepositoryModelUnloadResponse unloaded;
  grpc::ClientContext contexts[7];
  EXPECT_TRUE(stub_->RepositoryModelUnload(&contexts[0], unload, &unloaded).ok());
  EXPECT_FALSE(catalog_.Find("vit", "").ok());
  EXPECT_TRUE(stub_->RepositoryModelLoad(&contexts[1], load, &loaded).ok());
  EXPECT_TRUE(catalog_.Find("vit", "").ok());
  EXPECT_EQ(catalog_.last_config(), "{\"max_batch_size\": 2}");

  load.set_model_name("nobody");
  EXPECT_EQ(stub_->RepositoryModelLoad(&contexts[2], load, &loaded).error_code(), grpc::NOT_FOUND);
  unload.set_model_name("nobody");
  EXPECT_EQ(stub_->RepositoryModelUnload(&contexts[3], unload, &unloaded).error_code(),
            grpc::NOT_FOUND);
  (*load.mutable_parameters())["file:1/model.safetensors"].set_bytes_param("weights");
  load.set_model_name("vit");
  EXPECT_TRUE(stub_->RepositoryModelLoad(&contexts[4], load, &loaded).ok());
  ASSERT_EQ(catalog_.last_files().size(), 1);
  EXPECT_EQ(catalog_.last_files()[0].name, "1/model.safetensors");
  EXPECT_EQ(catalog_.last_files()[0].bytes, "weights");
  load.mutable_parameters()->erase("config");
  EXPECT_EQ(stub_->RepositoryModelLoad(&contexts[6], load, &loaded).error_code(),
            grpc::INVALID_ARGUMENT);
  load.clear_parameters();
  (*load.mutable_parameters())["speed"].set_bool_param(true);
  EXPECT_EQ(stub_->RepositoryModelLoad(&contexts[5], load, &loaded).error_code(),
            grpc::INVALID_ARGUMENT);
}

TEST_F(RepositoryRpc, AModelThatIsBeingLoadedHoldsUpNoOtherCall) {
  catalog_.BlockLoads();
  std::vector<std::thread> callers = Loads(6);  // more than there are threads for loading
  EXPECT_TRUE(
      Eventually([this] { return catalog_.loads_begun() == limits::kRepositoryCallThreads; }));
  ModelInferResponse response;
  grpc::ClientContext context;
  EXPECT_TRUE(stub_->ModelInfer(&context, SmallRequest(), &response).ok());
  catalog_.UnblockLoads();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(catalog_.loads_begun(), 6);
}

// Docs/faults.md, row 33.
TEST_F(RepositoryRpc, AListingThatHangsDoesNotHoldUpTheEnd) {
  catalog_.BlockIndex();
  grpc::Status listed;
  std::thread caller([&] {
    RepositoryIndexResponse index;
    grpc::ClientContext context;
    listed = stub_->RepositoryIndex(&context, {}, &index);
  });
  EXPECT_TRUE(Eventually([&] { return catalog_.indexes_begun() == 1; }));
  EXPECT_EQ(server_->Shutdown(60 * kSecond), 0);  // returns although the listing does not
  caller.join();
  EXPECT_EQ(listed.error_code(), grpc::UNAVAILABLE);
  catalog_.UnblockIndex();
}

// One that came after the others had been given up was never answered, and the end waited for it.
TEST_F(RepositoryRpc, AListingThatComesAtTheEndIsRefused) {
  catalog_.BlockIndex();
  std::atomic<bool> stop = false;
  std::vector<std::thread> callers;
  std::atomic<int> others = 0;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&, stub = GRPCInferenceService::NewStub(NewChannel())] {
      while (!stop) {
        RepositoryIndexResponse index;
        grpc::ClientContext listing, infer;
        others += stub->RepositoryIndex(&listing, {}, &index).error_code() != grpc::UNAVAILABLE;
        ModelInferResponse inferred;  // what comes keeps the server from being quiet
        stub->ModelInfer(&infer, SmallRequest(), &inferred);
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return catalog_.indexes_begun() == 1; }));
  EXPECT_EQ(server_->Shutdown(60 * kSecond), 0);
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(others, 0);
  catalog_.UnblockIndex();
}

// A task whose caller has gone is not worth a thread, and nobody expects what it would do.
TEST_F(RepositoryRpc, ALoadWhoseCallerHasGoneBeforeItsTurnIsNotDone) {
  catalog_.BlockLoads();
  std::vector<std::thread> callers = Loads(limits::kRepositoryCallThreads);
  EXPECT_TRUE(
      Eventually([this] { return catalog_.loads_begun() == limits::kRepositoryCallThreads; }));
  RepositoryModelLoadRequest request;
  request.set_model_name("vit");
  RepositoryModelLoadResponse loaded;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  EXPECT_EQ(stub_->RepositoryModelLoad(&context, request, &loaded).error_code(),
            grpc::DEADLINE_EXCEEDED);
  // Nothing shows when the server's own timer of the deadline has run.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  catalog_.UnblockLoads();
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(Load().ok());
  EXPECT_EQ(catalog_.loads_begun(), limits::kRepositoryCallThreads + 1);
}

TEST_F(RepositoryRpc, UnloadsDoNotWaitBehindLoadsThatHang) {
  catalog_.BlockLoads();
  std::vector<std::thread> callers = Loads(8);
  EXPECT_TRUE(Eventually([&] {
    return catalog_.loads_begun() == limits::kRepositoryCallThreads;
  }));  // all of their threads
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  inference::RepositoryModelUnloadRequest request;
  request.set_model_name("vit");
  inference::RepositoryModelUnloadResponse unloaded;
  EXPECT_TRUE(stub_->RepositoryModelUnload(&context, request, &unloaded).ok());
  catalog_.UnblockLoads();
  for (std::thread& caller : callers) caller.join();
}

TEST_F(RepositoryRpc, AListingThatHangsHoldsUpNoOtherCallAndIsBounded) {
  catalog_.BlockIndex();
  // More than gRPC has threads, and one more than may wait.
  constexpr int kCalls = 1 + limits::kMaxPendingIndexes + 1;
  std::atomic<int> answered = 0, refused = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < kCalls; ++i) {
    callers.emplace_back([&] {
      RepositoryIndexResponse index;
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      const grpc::Status status = stub_->RepositoryIndex(&context, {}, &index);
      answered += status.ok();
      refused += status.error_code() == grpc::UNAVAILABLE;
    });
  }
  EXPECT_TRUE(Eventually([&] { return catalog_.indexes_begun() == 1 && refused >= 1; }));
  const auto within_seconds = [](grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return &context;
  };
  grpc::ClientContext infer, load;
  ModelInferResponse inferred;
  EXPECT_TRUE(stub_->ModelInfer(within_seconds(infer), SmallRequest(), &inferred).ok());
  RepositoryModelLoadRequest request;
  request.set_model_name("vit");
  RepositoryModelLoadResponse loaded;
  EXPECT_TRUE(stub_->RepositoryModelLoad(within_seconds(load), request, &loaded).ok());
  catalog_.UnblockIndex();
  for (std::thread& caller : callers) caller.join();
  // The thread may have taken the first before the last came.
  EXPECT_GE(answered, kCalls - 2);
  EXPECT_EQ(answered + refused, kCalls);
}

}  // namespace
}  // namespace fovea
