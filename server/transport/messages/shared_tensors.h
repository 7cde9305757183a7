// Tensors of a request that lie in shared memory, whatever protocol tells of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/core/request.h"
#include "server/core/tensor.h"
#include "server/shared_memory/shared_memory_regions.h"

namespace fovea {

// Whether a tensor's parameter says where it lies.
bool IsSharedMemoryParameter(std::string_view name);
// Takes such a parameter: `text` or `number`, none where it is no such value.
void SetSharedMemory(std::string_view name, std::optional<std::string_view> text,
                     std::optional<int64_t> number, std::optional<SharedMemorySpan>* span);

// UNIMPLEMENTED request.shared_memory: the server lets no caller share memory.
absl::Status CheckSharedMemory(const InferenceRequest& request);

// Copies the bytes of `input`, `elements` elements, from where `span` says, once: what is checked
// is the copy. CheckSharedMemory's errors; SharedMemoryRegions::Find's; those of reading;
// RESOURCE_EXHAUSTED request.too_large; CheckInputBytes'; RequestMemory::Take's.
absl::Status ReadSharedInput(const SharedMemorySpan& span, int64_t elements,
                             InferenceRequest* request, InputTensor* input);

// The outputs of one request that go into shared memory. Not thread-safe.
class SharedOutputs {
 public:
  // Finds the places of those that `request` names. CheckSharedMemory's errors;
  // SharedMemoryRegions::Find's.
  absl::Status Find(const InferenceRequest& request);
  // Moves their bytes there: the tensors are left with none, and say where they are. Where one has
  // no room, nothing is written: INVALID_ARGUMENT shared_memory.output_too_small; those of writing.
  absl::Status Write(InferenceResponse& response) const;

 private:
  struct Output {
    std::string name;
    SharedMemorySpan span;
    SharedMemoryPlace place;
  };
  std::vector<Output> outputs_;
};

}  // namespace fovea
