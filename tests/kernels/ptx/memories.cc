#include "tests/kernels/ptx/memories.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "tests/kernels/ptx/failure.h"
#include "tests/kernels/ptx/program.h"

namespace fovea::ptx {
namespace {

// The offset of an access to a memory of `size` bytes that begins at kMemoryBase.
int64_t CheckedOffset(const char* memory, unsigned thread, uint64_t address, int bytes,
                      int64_t size) {
  const int64_t offset = static_cast<int64_t>(address - kMemoryBase);
  if (offset < 0 || offset > size - bytes) {
    std::ostringstream what;
    what << "out of bounds: bytes " << offset << " to " << offset + bytes << " of " << size
         << " bytes of " << memory << " memory";
    throw Violation(thread, what.str());
  }
  CheckAligned(thread, address, bytes);
  return offset;
}

}  // namespace

void CheckAligned(unsigned thread, uint64_t address, int bytes) {
  if (address % bytes == 0) return;
  std::ostringstream what;
  what << "misaligned: " << bytes << " bytes at 0x" << std::hex << address;
  throw Violation(thread, what.str());
}

std::byte* GlobalMemory::At(unsigned thread, uint64_t address, int bytes) {
  const auto holds = [&](const std::span<std::byte>& allocation) {
    const uint64_t offset = address - reinterpret_cast<uint64_t>(allocation.data());
    return offset < allocation.size() && allocation.size() - offset >= static_cast<size_t>(bytes);
  };
  if (last_ >= allocations_.size() || !holds(allocations_[last_])) {
    last_ = std::ranges::find_if(allocations_, holds) - allocations_.begin();
  }
  if (last_ == allocations_.size()) {
    std::ostringstream what;
    what << "out of bounds: " << bytes << " bytes at 0x" << std::hex << address
         << " are in none of the allocations into which the kernel's arguments point";
    throw Violation(thread, what.str());
  }
  CheckAligned(thread, address, bytes);
  return reinterpret_cast<std::byte*>(address);
}

SharedMemory::SharedMemory(int64_t bytes, unsigned threads)
    : bytes_(bytes), races_(bytes, threads) {}

void SharedMemory::Clear() {
  std::ranges::fill(bytes_, std::byte{0xFF});  // NaN in every type
  races_.Clear();
}

int64_t SharedMemory::OffsetOf(unsigned thread, uint64_t address, int bytes) const {
  return CheckedOffset("shared", thread, address, bytes, static_cast<int64_t>(bytes_.size()));
}

const std::byte* SharedMemory::Read(unsigned thread, uint64_t address, int bytes, uint32_t used) {
  const int64_t at = OffsetOf(thread, address, bytes);
  races_.Read(thread, at, bytes, used);
  return bytes_.data() + at;
}

std::byte* SharedMemory::Write(unsigned thread, uint64_t address, int bytes) {
  const int64_t at = OffsetOf(thread, address, bytes);
  races_.Write(thread, at, bytes);
  return bytes_.data() + at;
}

void SharedMemory::StartCopy(unsigned thread, uint64_t address, int bytes) {
  races_.StartCopy(thread, OffsetOf(thread, address, bytes), bytes);
}

void SharedMemory::EndCopy(unsigned thread, uint64_t address, std::span<const std::byte> from) {
  const int bytes = static_cast<int>(from.size());
  const int64_t at = OffsetOf(thread, address, bytes);
  races_.EndCopy(thread, at, bytes);
  std::memcpy(bytes_.data() + at, from.data(), from.size());
}

LocalMemory::LocalMemory(int64_t bytes_of_thread, unsigned threads)
    : bytes_of_thread_(bytes_of_thread),
      bytes_(bytes_of_thread * threads),
      written_(bytes_of_thread * threads) {}

void LocalMemory::Clear() { written_.assign(written_.size(), false); }

int64_t LocalMemory::OffsetOf(unsigned thread, uint64_t address, int bytes) const {
  return thread * bytes_of_thread_ +
         CheckedOffset("local", thread, address, bytes, bytes_of_thread_);
}

const std::byte* LocalMemory::Read(unsigned thread, uint64_t address, int bytes, uint32_t used) {
  const int64_t at = OffsetOf(thread, address, bytes);
  for (int i = 0; i < bytes; ++i) {
    if ((used >> i & 1) != 0 && !written_[at + i]) {
      throw Violation(thread, "reads byte " + std::to_string(at + i - thread * bytes_of_thread_) +
                                  " of its local memory, which nothing has written");
    }
  }
  return bytes_.data() + at;
}

std::byte* LocalMemory::Write(unsigned thread, uint64_t address, int bytes) {
  const int64_t at = OffsetOf(thread, address, bytes);
  for (int i = 0; i < bytes; ++i) written_[at + i] = true;
  return bytes_.data() + at;
}

const std::byte* ParameterMemory::Read(unsigned thread, uint64_t address, int bytes) const {
  return bytes_.data() +
         CheckedOffset("parameter", thread, address, bytes, static_cast<int64_t>(bytes_.size()));
}

}  // namespace fovea::ptx
