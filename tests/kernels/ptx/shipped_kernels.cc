#include "tests/kernels/ptx/shipped_kernels.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/kernels/ptx/device_memory.h"

namespace fovea::ptx {
namespace {

// LibTorch's allocator of the CPU; what it allocates is device memory.
class DeviceTensorAllocator : public c10::Allocator {
 public:
  explicit DeviceTensorAllocator(c10::Allocator* allocator) : allocator_(allocator) {}

  c10::DataPtr allocate(size_t bytes) override {
    auto memory = std::make_shared<c10::DataPtr>(allocator_->allocate(bytes));
    void* const begin = memory->get();
    if (bytes == 0 || begin == nullptr) return std::move(*memory);
    DeviceMemory::Instance().Add(begin, bytes);
    return c10::InefficientStdFunctionContext::makeDataPtr(
        begin, [memory](void* at) { DeviceMemory::Instance().Remove(at); }, c10::kCPU);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    allocator_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* allocator_;
};

// Before any test makes a tensor; for the rest of the process.
[[maybe_unused]] const bool allocator_is_installed = [] {
  c10::SetCPUAllocator(new DeviceTensorAllocator(c10::GetCPUAllocator()), /*priority=*/100);
  return true;
}();

class PrintTotalCounts : public testing::Environment {
  void TearDown() override {
    const Counts& counts = TotalCounts();
    std::printf(
        "%lld instructions of warps (%lld of threads), %lld mma, %lld ldmatrix with %lld "
        "extra phases\n",
        static_cast<long long>(counts.Issued()), static_cast<long long>(counts.Executed()),
        static_cast<long long>(counts.IssuedOf("mma")),
        static_cast<long long>(counts.IssuedOf("ldmatrix")),
        static_cast<long long>(counts.ldmatrix_extra_phases));
  }
};
[[maybe_unused]] testing::Environment* const print_counts =
    testing::AddGlobalTestEnvironment(new PrintTotalCounts);

}  // namespace

Module& ShippedKernels() {
  static Module& kernels = *[] {
    auto* all = new Module;
    for (const std::string& path : LinesOf(FOVEA_PTX_FILES)) all->Add(ReadFile(path));
    return all;
  }();
  return kernels;
}

std::string ShippedText(const std::string& folder) {
  for (const std::string& path : LinesOf(FOVEA_PTX_FILES)) {
    if (path.find("/" + folder + "/") != std::string::npos) return ReadFile(path);
  }
  throw std::runtime_error("no PTX of " + folder);
}

Counts& TotalCounts() {
  static Counts counts;
  return counts;
}

void LaunchShipped(const std::string& kernel, const Grid& grid,
                   const std::vector<Argument>& arguments) {
  TotalCounts().Add(Launch(ShippedKernels().Find(kernel), grid, arguments));
}

}  // namespace fovea::ptx
