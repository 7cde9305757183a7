// Which implementation runs, and what is said where the forced one cannot.
#include "kernels/dispatch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <thread>

#include "kernels/attention/knn_attention/op.h"
#include "kernels/simd/isa.h"

namespace fovea::kernels {
namespace {

constexpr at::ScalarType kCpuTypes[] = {at::kFloat, at::kBFloat16};
constexpr at::ScalarType kCudaTypes[] = {at::kHalf};
const Capabilities kBoth{"an_op", {kCpuTypes, ""}, {kCudaTypes, ""}};
const Capabilities kCpuOnly{"an_op", {kCpuTypes, ""}, {{}, "no nvcc"}};

std::string ForcedError(Implementation forced, const Capabilities& capabilities,
                        c10::DeviceType device, at::ScalarType type) {
  const ScopedForcedImplementation scope(forced);
  try {
    ChooseImplementation(capabilities, device, type);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(DispatchTest, TheDevicesOwnImplementationRunsWhereItTakesTheType) {
  const ScopedForcedImplementation unforced(std::nullopt);
  EXPECT_EQ(ChooseImplementation(kBoth, at::kCPU, at::kBFloat16), Implementation::kCpu);
  EXPECT_EQ(ChooseImplementation(kBoth, at::kCUDA, at::kHalf), Implementation::kCuda);
  EXPECT_EQ(ChooseImplementation(kBoth, at::kCPU, at::kHalf), Implementation::kReference);
  EXPECT_EQ(ChooseImplementation(kBoth, at::kCUDA, at::kFloat), Implementation::kReference);
  EXPECT_EQ(ChooseImplementation(kCpuOnly, at::kCUDA, at::kHalf), Implementation::kReference);
}

TEST(DispatchTest, OnCudaTheTypesArePromisedThatAreBuilt) {
#if !defined(FOVEA_KERNELS_CUDA)
  EXPECT_THAT(WrittenInCuda().types, testing::IsEmpty());
#elif defined(FOVEA_CUDA_ONE_TYPE)
  EXPECT_THAT(WrittenInCuda().types, testing::ElementsAre(at::kBFloat16));
#else
  EXPECT_THAT(WrittenInCuda().types, testing::ElementsAre(at::kFloat, at::kBFloat16, at::kHalf));
#endif
}

TEST(DispatchTest, AForcedReferenceRunsAnywhere) {
  const ScopedForcedImplementation forced(Implementation::kReference);
  EXPECT_EQ(ChooseImplementation(kBoth, at::kCPU, at::kFloat), Implementation::kReference);
  EXPECT_EQ(ChooseImplementation(kBoth, at::kCUDA, at::kHalf), Implementation::kReference);
}

TEST(DispatchTest, AForcedImplementationThatCannotRunIsAnErrorThatSaysWhy) {
  EXPECT_EQ(ForcedError(Implementation::kCuda, kCpuOnly, at::kCUDA, at::kHalf),
            "an_op: FOVEA_FORCE_KERNEL=cuda, but there is no cuda implementation here: no nvcc");
  EXPECT_EQ(ForcedError(Implementation::kCuda, kBoth, at::kCPU, at::kHalf),
            "an_op: FOVEA_FORCE_KERNEL=cuda, but its tensors are on cpu");
  EXPECT_EQ(ForcedError(Implementation::kCpu, kBoth, at::kCUDA, at::kFloat),
            "an_op: FOVEA_FORCE_KERNEL=cpu, but its tensors are on cuda");
  EXPECT_EQ(ForcedError(Implementation::kCpu, kBoth, at::kCPU, at::kDouble),
            "an_op: FOVEA_FORCE_KERNEL=cpu, but the cpu implementation takes Float, BFloat16, got "
            "Double");
}

// ATen lets a thread start from the number that was set last, when LibTorch meets it and once more
// when a library beside it does: scratch memory for each thread has to be for the second number.
TEST(DispatchTest, AThreadMayFindMoreThreadsThanItKnewOf) {
  if (simd::BestIsa() == simd::Isa::kNone) GTEST_SKIP() << "only the reference runs here";
  const int threads = at::get_num_threads();
  const at::Tensor q = at::randn({8, 4, 257, 64});
  const at::Tensor expected = KnnAttention(q, q, q, /*topk=*/100);
  at::Tensor found;
  at::set_num_threads(1);
  std::barrier met(2);
  std::thread other([&] {
    EXPECT_EQ(at::get_num_threads(), 1);  // LibTorch meets the thread
    met.arrive_and_wait();                // and more threads are set
    met.arrive_and_wait();
    found = KnnAttention(q, q, q, /*topk=*/100);
    EXPECT_EQ(at::get_num_threads(), 8);
  });
  met.arrive_and_wait();
  at::set_num_threads(8);
  met.arrive_and_wait();
  other.join();
  at::set_num_threads(threads);
  EXPECT_TRUE(at::allclose(found, expected));
}

TEST(DispatchTest, ForcingNestsAndEnds) {
  const ScopedForcedImplementation outer(Implementation::kReference);
  {
    const ScopedForcedImplementation inner(std::nullopt);
    EXPECT_EQ(ChooseImplementation(kBoth, at::kCPU, at::kFloat), Implementation::kCpu);
  }
  EXPECT_EQ(ChooseImplementation(kBoth, at::kCPU, at::kFloat), Implementation::kReference);
}

TEST(DispatchTest, AnInstructionSetAboveTheMachinesIsRefused) {
  if (simd::BestIsa() == simd::Isa::kAvx512) GTEST_SKIP() << "this machine has the highest";
  EXPECT_THROW(simd::ScopedIsa{simd::Isa::kAvx512}, c10::Error);
}

// Each implementation is really another one: their roundings differ.
TEST(DispatchTest, TheForcedImplementationIsTheOneThatRuns) {
  if (simd::BestIsa() == simd::Isa::kNone) GTEST_SKIP() << "only the reference runs here";
  at::manual_seed(3);
  const at::Tensor q = at::randn({1, 1, 64, 64}), k = at::randn({1, 1, 64, 64}),
                   v = at::randn({1, 1, 64, 64});
  const auto run = [&](Implementation forced) {
    const ScopedForcedImplementation scope(forced);
    return KnnAttention(q, k, v, 20);
  };
  EXPECT_TRUE(run(Implementation::kCpu).equal(run(Implementation::kCpu)));
  EXPECT_FALSE(run(Implementation::kCpu).equal(run(Implementation::kReference)));
}

}  // namespace
}  // namespace fovea::kernels
