// A repository folder of a test's own, removed with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace fovea {

// The smallest spec there is.
inline constexpr char kPlainSpec[] = "spec_version: 1\nbackbone: \"deit_tiny_patch16_224\"\n";

// The smallest file that the repository takes for safetensors: no tensors at all.
inline std::string EmptySafetensors() { return std::string("\x02\0\0\0\0\0\0\0{}", 10); }

class TempRepository {
 public:
  TempRepository() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fovea_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  ~TempRepository() { std::filesystem::remove_all(root_); }
  TempRepository(const TempRepository&) = delete;
  TempRepository& operator=(const TempRepository&) = delete;

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path operator/(std::string_view path) const { return root_ / path; }

  // Writes a file, its folders too. A file that was there is replaced, not written into, as a
  // careful operator does.
  void Write(std::string_view path, std::string_view bytes) const {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    const std::filesystem::path fresh = file.parent_path() / ".fresh";
    std::ofstream(fresh, std::ios::binary) << bytes;
    std::filesystem::rename(fresh, file);
  }
  void Append(std::string_view path, std::string_view bytes) const {
    std::ofstream(root_ / path, std::ios::binary | std::ios::app) << bytes;
  }
  void Remove(std::string_view path) const { std::filesystem::remove_all(root_ / path); }

  // A model that loads: a spec with `more` in it, and one version with weights.
  void AddModel(std::string_view name, std::string_view more = "", int64_t version = 1) const {
    Write(std::string(name) + "/model.textproto", kPlainSpec + std::string(more));
    AddVersion(name, version);
  }
  void AddVersion(std::string_view name, int64_t version) const {
    Write(std::string(name) + "/" + std::to_string(version) + "/model.safetensors",
          EmptySafetensors());
  }

 private:
  std::filesystem::path root_;
};

}  // namespace fovea
