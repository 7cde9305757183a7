// Lets large allocations fail, as on a machine whose memory is used up. A program that uses it has
// operator new replaced; what C libraries allocate (gRPC's buffers, tensors) is not touched.
#pragma once

#include <cstddef>

namespace fovea {

// While it lives, operator new throws std::bad_alloc for `bytes` and more, on every thread. One at
// a time.
class AllocationLimit {
 public:
  explicit AllocationLimit(size_t bytes);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

  int refused() const;  // so far
};

}  // namespace fovea
