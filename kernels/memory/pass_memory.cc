#include "kernels/memory/pass_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "kernels/memory/cpu_allocator.h"
#include "kernels/memory/pass_plan.h"

// Under AddressSanitizer only blocks that are used may be touched, as with any allocator.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1  // which Clang does not say
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, bytes) (static_cast<void>(begin))
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes) (static_cast<void>(begin))
#endif

namespace fovea::kernels {
namespace {

struct Extent {
  size_t begin = 0;
  size_t end = 0;
  bool Overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

// Pages of the system's: what is given back is given back at once.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    const bool huge = bytes_ >= kHugePageBytes;
    const size_t mapped = bytes_ + (huge ? kHugePageBytes : 0);
    void* const at =
        mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    begin_ = static_cast<char*>(at);
    if (!huge) return;
    const size_t before = -reinterpret_cast<uintptr_t>(begin_) % kHugePageBytes;
    if (before > 0) munmap(begin_, before);
    begin_ += before;
    if (before < kHugePageBytes) munmap(begin_ + bytes_, kHugePageBytes - before);
    AdviseHugePages(begin_, bytes_);
  }
  ~Pages() {
    if (begin_ != nullptr) munmap(begin_, bytes_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  char* begin() const { return begin_; }  // null: there is no memory
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kPage = 4096;
  const size_t bytes_;
  char* begin_ = nullptr;
};

}  // namespace

// Thread-safe.
class Slab : public std::enable_shared_from_this<Slab> {
 public:
  explicit Slab(size_t bytes);
  ~Slab();

  // False: there is no memory.
  bool valid() const { return pages_.begin() != nullptr; }
  size_t bytes() const { return pages_.bytes(); }
  const char* begin() const { return pages_.begin(); }
  bool Holds(const void* address) const {
    return address >= pages_.begin() && address < pages_.begin() + pages_.bytes();
  }

  // Where a range of so many bytes is free, or would be if there were more bytes.
  size_t FreeRange(size_t bytes) const {
    const std::lock_guard lock(mutex_);
    size_t begin = 0;
    for (const Extent& range : ranges_) {
      if (range.begin >= begin + bytes) break;
      begin = range.end;
    }
    return begin;
  }
  void AddRange(size_t begin, size_t bytes) {
    const std::lock_guard lock(mutex_);
    ranges_.insert(std::ranges::upper_bound(ranges_, begin, {}, &Extent::begin),
                   {begin, begin + bytes});
  }
  void RemoveRange(size_t begin) {
    const std::lock_guard lock(mutex_);
    ranges_.erase(std::ranges::find(ranges_, begin, &Extent::begin));
  }
  bool HasRanges() const {
    const std::lock_guard lock(mutex_);
    return !ranges_.empty();
  }

  c10::DataPtr Take(size_t offset, size_t bytes);
  // Of any slab.
  static void Free(void* address);

 private:
  // Lies before what it is of.
  struct Block {
    Extent extent;  // of both
    size_t bytes = 0;
    std::shared_ptr<Slab> slab;
    Block* next = nullptr;
    Block* previous = nullptr;
  };
  static_assert(sizeof(Block) <= kBlockHeader);

  void Free(Block& block);
  void Report(void* address, int64_t bytes, size_t used_bytes) const {
    if (!c10::memoryProfilingEnabled()) return;
    c10::reportMemoryUsageToProfiler(address, bytes, used_bytes, pages_.bytes(),
                                     c10::Device(c10::kCPU));
  }

  const Pages pages_;
  mutable std::mutex mutex_;
  std::vector<Extent> ranges_;  // by where they begin
  Block* used_ = nullptr;       // all that are
  size_t used_bytes_ = 0;
};

namespace {

// Those that there are, for who has only an address. Thread-safe.
class Slabs {
 public:
  static Slabs& All() {
    static auto& all = *new Slabs;  // tensors may outlive everything
    return all;
  }
  void Add(const Slab& slab) {
    const std::lock_guard lock(mutex_);
    slabs_.emplace(slab.begin(), &slab);
  }
  void Remove(const Slab& slab) {
    const std::lock_guard lock(mutex_);
    slabs_.erase(slab.begin());
  }
  bool Hold(const void* address) const {
    const std::lock_guard lock(mutex_);
    const auto after = slabs_.upper_bound(static_cast<const char*>(address));
    return after != slabs_.begin() && std::prev(after)->second->Holds(address);
  }

 private:
  mutable std::mutex mutex_;
  std::map<const char*, const Slab*, std::less<>> slabs_;
};

}  // namespace

Slab::Slab(size_t bytes) : pages_(bytes) {
  if (!valid()) return;
  ASAN_POISON_MEMORY_REGION(pages_.begin(), pages_.bytes());
  Slabs::All().Add(*this);
}

Slab::~Slab() {
  if (!valid()) return;
  Slabs::All().Remove(*this);
  ASAN_UNPOISON_MEMORY_REGION(pages_.begin(), pages_.bytes());
}

c10::DataPtr Slab::Take(size_t offset, size_t bytes) {
  const Extent extent{offset, offset + PlacedBytes(bytes)};
  char* const header = pages_.begin() + offset;
  size_t used_bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    if (extent.end > pages_.bytes()) return {};
    for (const Block* used = used_; used != nullptr; used = used->next) {
      if (used->extent.Overlaps(extent)) return {};
    }
    ASAN_UNPOISON_MEMORY_REGION(header, kBlockHeader + bytes);
    used_ = new (header)
        Block{.extent = extent, .bytes = bytes, .slab = shared_from_this(), .next = used_};
    if (used_->next != nullptr) used_->next->previous = used_;
    used_bytes = used_bytes_ += bytes;
  }
  char* const address = header + kBlockHeader;
  Report(address, static_cast<int64_t>(bytes), used_bytes);
  return {address, address, &Free, c10::Device(c10::kCPU)};
}

void Slab::Free(void* address) {
  Block& block =
      *std::launder(reinterpret_cast<Block*>(static_cast<char*>(address) - kBlockHeader));
  const std::shared_ptr<Slab> slab = block.slab;  // which may go with its last block
  slab->Free(block);
}

void Slab::Free(Block& block) {
  const size_t bytes = block.bytes;
  char* const header = reinterpret_cast<char*>(&block);
  size_t used_bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    (block.previous != nullptr ? block.previous->next : used_) = block.next;
    if (block.next != nullptr) block.next->previous = block.previous;
    block.~Block();
    ASAN_POISON_MEMORY_REGION(header, kBlockHeader + bytes);
    used_bytes = used_bytes_ -= bytes;
  }
  Report(header + kBlockHeader, -static_cast<int64_t>(bytes), used_bytes);
}

bool TryFreeBlock(void* address) {
  if (!Slabs::All().Hold(address)) return false;
  Slab::Free(address);
  return true;
}

PassMemory::Range::Range(std::shared_ptr<Slab> slab, size_t begin)
    : slab_(std::move(slab)), begin_(begin) {}
PassMemory::Range::~Range() {
  if (slab_ != nullptr) slab_->RemoveRange(begin_);
}
PassMemory::Range::Range(Range&& other) noexcept
    : slab_(std::move(other.slab_)), begin_(other.begin_) {}
PassMemory::Range& PassMemory::Range::operator=(Range&& other) noexcept {
  std::swap(slab_, other.slab_);
  std::swap(begin_, other.begin_);
  return *this;
}

c10::DataPtr PassMemory::Range::Take(size_t offset, size_t bytes) const {
  if (slab_ == nullptr) return {};
  return slab_->Take(begin_ + offset, bytes);
}

PassMemory::Range PassMemory::Reserve(size_t bytes) {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  size_t begin = slab_ != nullptr ? slab_->FreeRange(bytes) : 0;
  if (slab_ == nullptr || begin + bytes > slab_->bytes()) {
    // Those that run keep what they have until they end. Where nobody does, the old one goes first.
    const size_t room = begin + bytes;
    if (slab_ != nullptr && !slab_->HasRanges()) slab_.reset();
    auto larger = std::make_shared<Slab>(room);
    if (!larger->valid()) return {};  // the pass may do with what the allocator has
    slab_ = std::move(larger);
    begin = 0;
  }
  slab_->AddRange(begin, bytes);
  return {slab_, begin};
}

void PassMemory::GiveBack() {
  const std::lock_guard lock(mutex_);
  if (slab_ != nullptr && !slab_->HasRanges()) slab_.reset();
}

size_t PassMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return slab_ != nullptr ? slab_->bytes() : 0;
}

bool PassMemory::Holds(const void* address) const {
  const std::lock_guard lock(mutex_);
  return slab_ != nullptr && slab_->Holds(address);
}

}  // namespace fovea::kernels
