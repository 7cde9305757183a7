#include "server/shared_memory/shared_memory_regions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace fovea {
namespace {

// Objects that programs make for themselves and that a caller would not have made for us: glibc's
// semaphores, LibTorch's and LLVM's OpenMP's own, Triton's backends'.
constexpr std::string_view kReservedPrefixes[] = {"sem.", "torch_", "__KMP_", "triton_", "fovea_"};

bool IsKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

absl::Status CheckKey(std::string_view key) {
  // The slash is POSIX's; clients leave it out too.
  if (key.starts_with('/')) key.remove_prefix(1);
  const bool reserved = std::ranges::any_of(
      kReservedPrefixes, [&](std::string_view prefix) { return key.starts_with(prefix); });
  if (!key.empty() && key.size() <= limits::kMaxSharedMemoryNameBytes && !key.starts_with('.') &&
      std::ranges::all_of(key, IsKeyCharacter) && !reserved) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "shared_memory.key",
      absl::StrCat("a key is at most ", limits::kMaxSharedMemoryNameBytes,
                   " letters, digits, '_', '-' and '.', no dot first, after one '/', and begins "
                   "with no prefix that is reserved"));
}

absl::Status CheckName(std::string_view name) {
  if (!name.empty() && name.size() <= limits::kMaxSharedMemoryNameBytes) return absl::OkStatus();
  return InvalidArgument(
      "shared_memory.name",
      absl::StrCat("a region's name has 1 to ", limits::kMaxSharedMemoryNameBytes, " bytes"));
}

// Whether [offset, offset + size) lies in [0, end). No sum: it may overflow.
bool IsInside(uint64_t offset, uint64_t size, uint64_t end) {
  return offset <= end && size <= end - offset;
}

}  // namespace

// One read or write. False where the region is closed.
class SharedMemoryRegion::Use {
 public:
  explicit Use(SharedMemoryRegion& region) : region_(region) {
    MutexLock lock(region_.mutex_);
    open_ = !region_.closed_;
    if (open_) ++region_.users_;
  }
  ~Use() {
    if (!open_) return;
    MutexLock lock(region_.mutex_);
    if (--region_.users_ == 0) region_.idle_.NotifyAll();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  absl::Status status() const {
    if (open_) return absl::OkStatus();
    return InvalidArgument("shared_memory.unregistered",
                           "the shared memory region was unregistered while the request ran");
  }

 private:
  SharedMemoryRegion& region_;
  bool open_ = false;
};

SharedMemoryRegion::SharedMemoryRegion(SharedMemoryRegionInfo info,
                                       std::unique_ptr<SharedMemoryObject> object)
    : info_(std::move(info)), object_(std::move(object)) {}

absl::Status SharedMemoryRegion::Read(uint64_t offset, std::span<std::byte> to) {
  const Use use(*this);
  FOVEA_RETURN_IF_ERROR(use.status());
  return object_->Read(info_.offset + offset, to);
}

absl::Status SharedMemoryRegion::Write(uint64_t offset, std::string_view bytes) {
  const Use use(*this);
  FOVEA_RETURN_IF_ERROR(use.status());
  return object_->Write(info_.offset + offset, bytes);
}

void SharedMemoryRegion::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  while (users_ > 0) idle_.Wait(mutex_);
}

absl::Status SharedMemoryRegions::CheckRoom(const std::string& name) const {
  if (regions_.contains(name)) {
    return MakeError(absl::StatusCode::kAlreadyExists, "shared_memory.name_taken",
                     "a region of that name is registered: unregister it first");
  }
  if (regions_.size() < options_.max_regions) return absl::OkStatus();
  return ResourceExhausted("shared_memory.too_many",
                           absl::StrCat("no more than ", options_.max_regions,
                                        " regions: unregister those that are not in use"));
}

absl::Status SharedMemoryRegions::Register(SharedMemoryRegionInfo region) {
  FOVEA_RETURN_IF_ERROR(CheckName(region.name));
  FOVEA_RETURN_IF_ERROR(CheckKey(region.key));
  {
    MutexLock lock(mutex_);
    FOVEA_RETURN_IF_ERROR(CheckRoom(region.name));
  }
  FOVEA_ASSIGN_OR_RETURN(std::unique_ptr<SharedMemoryObject> object, open_(region.key));
  FOVEA_ASSIGN_OR_RETURN(const uint64_t size, object->SizeBytes());
  if (region.byte_size == 0 || !IsInside(region.offset, region.byte_size, size)) {
    return InvalidArgument("shared_memory.range",
                           "a region is 1 byte at least, and inside of its object");
  }
  const std::string name = region.name;
  auto opened = std::make_shared<SharedMemoryRegion>(std::move(region), std::move(object));
  MutexLock lock(mutex_);
  FOVEA_RETURN_IF_ERROR(CheckRoom(name));  // others may have come meanwhile
  regions_.emplace(name, std::move(opened));
  return absl::OkStatus();
}

void SharedMemoryRegions::Unregister(const std::string& name) {
  Regions gone;
  {
    MutexLock lock(mutex_);
    if (name.empty()) {
      gone.swap(regions_);
    } else if (auto node = regions_.extract(name); !node.empty()) {
      gone.insert(std::move(node));
    }
  }
  for (const auto& [_, region] : gone) region->Close();
}

absl::StatusOr<std::vector<SharedMemoryRegionInfo>> SharedMemoryRegions::Status(
    const std::string& name) const {
  std::vector<SharedMemoryRegionInfo> infos;
  MutexLock lock(mutex_);
  for (const auto& [known, region] : regions_) {
    if (name.empty() || known == name) infos.push_back(region->info());
  }
  if (!name.empty() && infos.empty()) {
    return NotFound("shared_memory.name_unknown", "no region of that name is registered");
  }
  return infos;
}

absl::StatusOr<SharedMemoryPlace> SharedMemoryRegions::Find(const SharedMemorySpan& span) const {
  std::shared_ptr<SharedMemoryRegion> region;
  {
    MutexLock lock(mutex_);
    const auto found = regions_.find(span.region);
    if (found != regions_.end()) region = found->second;
  }
  if (region == nullptr) {
    return InvalidArgument("shared_memory.not_registered",
                           "a tensor lies in a shared memory region that is not registered");
  }
  if (span.offset < 0 || span.byte_size <= 0 ||
      !IsInside(span.offset, span.byte_size, region->info().byte_size)) {
    return InvalidArgument("shared_memory.range",
                           "a tensor in shared memory is 1 byte at least, and inside its region");
  }
  return SharedMemoryPlace(std::move(region), span.offset, span.byte_size);
}

}  // namespace fovea
