#include "model_zoo/weights/safetensors.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "model_zoo/quoted.h"

namespace fovea::models {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr uint64_t kStagingBytes = 1 << 20;

// What a file that is no safetensors is, as far as its first bytes tell.
std::string_view Recognise(std::string_view head) {
  struct Magic {
    std::string_view bytes, format;
  };
  using namespace std::string_view_literals;
  constexpr Magic kMagics[] = {
      {"PK\3\4"sv, "a zip archive, as torch.save and TorchScript write"},
      {"PK\5\6"sv, "an empty zip archive"},
      {"\x80\2"sv, "a pickle"},
      {"\x80\3"sv, "a pickle"},
      {"\x80\4"sv, "a pickle"},
      {"\x80\5"sv, "a pickle"},
      {"(dp"sv, "a pickle"},
      {"\x1f\x8b"sv, "a gzip archive"},
      {"\x89HDF"sv, "HDF5"},
      {"GGUF"sv, "GGUF"},
      {"\x93NUMPY"sv, "a NumPy array"},
      {"ustar"sv, "a tar archive"},
  };
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes)) {
      return magic.format;
    }
  }
  return {};
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) {
  // A FIFO would block at open and a device never ends: opened without waiting, then asked what it
  // is.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  TORCH_CHECK(fd_ >= 0, "the weights cannot be opened: ", std::strerror(errno));
  try {
    struct stat status {};
    TORCH_CHECK(::fstat(fd_, &status) == 0, "the weights cannot be read: ", std::strerror(errno));
    TORCH_CHECK_VALUE(S_ISREG(status.st_mode), "the weights are not a regular file");
    opened_ = Stat();
    ReadHeader();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::close(fd_); }

SafetensorsFile::Stamp SafetensorsFile::Stat() const {
  struct stat status {};
  TORCH_CHECK(::fstat(fd_, &status) == 0, "the weights cannot be read: ", std::strerror(errno));
  return {static_cast<uint64_t>(status.st_size), status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

void SafetensorsFile::ReadAt(uint64_t offset, void* to, uint64_t bytes) const {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got =
        ::pread(fd_, out, std::min<uint64_t>(bytes, 1 << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    TORCH_CHECK(got >= 0, "the weights cannot be read: ", std::strerror(errno));
    TORCH_CHECK_VALUE(got > 0, "the weights became shorter while they were read");
    out += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
}

void SafetensorsFile::ReadHeader() {
  uint64_t length = 0;
  char head[16] = {};
  const uint64_t head_bytes = std::min<uint64_t>(sizeof(head), opened_.bytes);
  ReadAt(0, head, head_bytes);
  std::memcpy(&length, head, sizeof(length));
  const bool too_short = opened_.bytes < sizeof(length);
  const bool length_fits = !too_short && length <= kMaxSafetensorsHeaderBytes &&
                           length <= opened_.bytes - sizeof(length);
  if (!length_fits || length == 0 || head[sizeof(length)] != '{') {
    const std::string_view format = Recognise({head, head_bytes});
    TORCH_CHECK_VALUE(format.empty(), "unsupported weight format: ", format,
                      "; only safetensors is read");
    TORCH_CHECK_VALUE(!too_short, "the weights are not valid safetensors: the file has only ",
                      opened_.bytes, " bytes");
    TORCH_CHECK_VALUE(length <= kMaxSafetensorsHeaderBytes,
                      "the weights are not valid safetensors: a header of ", length,
                      " bytes, at most ", kMaxSafetensorsHeaderBytes, " are allowed");
    TORCH_CHECK_VALUE(length_fits, "the weights are not valid safetensors: a header of ", length,
                      " bytes in a file of ", opened_.bytes);
  }
  std::string header(length, '\0');
  ReadAt(sizeof(length), header.data(), length);
  data_offset_ = sizeof(length) + length;
  tensors_ = ParseSafetensorsHeader(header, opened_.bytes - data_offset_);
}

void SafetensorsFile::ReadInto(const StoredTensor& stored, const at::Tensor& destination) const {
  TORCH_CHECK_VALUE(stored.type != StoredType::kOther, "tensor ", Quoted(stored.name), " is ",
                    stored.type_name, "; weights are F32, F16 or BF16");
  TORCH_INTERNAL_ASSERT(destination.scalar_type() == at::kFloat && destination.is_contiguous() &&
                        destination.sizes() == at::IntArrayRef(stored.shape));
  const uint64_t offset = data_offset_ + stored.begin;
  auto* out = destination.mutable_data_ptr<float>();
  if (stored.type == StoredType::kF32) {
    ReadAt(offset, out, stored.end - stored.begin);
    return;
  }
  const auto half = stored.type == StoredType::kF16 ? at::kHalf : at::kBFloat16;
  const uint64_t bytes = stored.end - stored.begin;
  const at::Tensor staging =
      at::empty({static_cast<int64_t>(std::min(bytes, kStagingBytes) / 2)}, half);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t part = std::min(bytes - done, kStagingBytes);
    ReadAt(offset + done, staging.data_ptr(), part);
    const auto numbers = static_cast<int64_t>(part / 2);
    at::from_blob(out + done / 2, {numbers}, at::kFloat).copy_(staging.narrow(0, 0, numbers));
    done += part;
  }
}

void SafetensorsFile::CheckUnchanged() const {
  TORCH_CHECK_VALUE(Stat() == opened_, "the weights were written to while they were read");
}

}  // namespace fovea::models
