// Reads safetensors, the only weight format there is: a JSON header that names byte ranges, then
// the bytes. Nothing in a file is executed, and nothing is believed before it is checked.
//   Format: huggingface/safetensors, README, "Format"; the errors are its list and docs/faults.md
//   rows 27 to 29.
//
// Files are read by copy, never mapped: one that shrinks while it is read is an error, not a
// SIGBUS. Errors are c10::ValueError where the content is wrong, other c10::Error where reading
// failed. Their first line is a sentence for an operator and holds no path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}

namespace fovea::models {

// As in base/limits.h, which the zoo does not see.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

enum class StoredType { kF32, kF16, kBf16, kOther };

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kOther;
  std::string type_name;  // as written: "F32", "I64", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes of the data, which start behind the header
};

// Checks a header against `data_bytes`, the bytes behind it, and lists its tensors in the order of
// their bytes: valid UTF-8 and JSON that begins with '{', no name or field twice, known types,
// shape x type equal to the range, ranges that follow each other from 0 to `data_bytes` without
// hole or overlap, no overflow.
std::vector<StoredTensor> ParseSafetensorsHeader(std::string_view header, uint64_t data_bytes);

// An open file whose header was checked. Not thread-safe.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::vector<StoredTensor>& tensors() const { return tensors_; }

  // Reads one F32, F16 or BF16 tensor into an FP32 tensor of the same shape, contiguous and on the
  // CPU.
  void ReadInto(const StoredTensor& stored, const at::Tensor& destination) const;

  // Throws when the file was written to since it was opened: what was read may be half old and half
  // new.
  void CheckUnchanged() const;

 private:
  struct Stamp {
    uint64_t bytes;
    int64_t modified_s, modified_ns;
    bool operator==(const Stamp&) const = default;
  };
  Stamp Stat() const;
  void ReadAt(uint64_t offset, void* to, uint64_t bytes) const;
  void ReadHeader();

  int fd_ = -1;
  Stamp opened_{};
  uint64_t data_offset_ = 0;
  std::vector<StoredTensor> tensors_;
};

}  // namespace fovea::models
