#include "model_zoo/training/data/user_data/fingerprint.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "model_zoo/training/data/fnv1a.h"

namespace fovea::models::training {

uint64_t FingerprintOf(const SampleSource& source) {
  uint64_t hash = Fnv1a("");
  // A file's name does not tell which class its folder is.
  for (uint64_t i = 0; i < source.size(); ++i) hash = Fnv1a(source.Name(i) + "\n", hash);
  for (const std::filesystem::path& file : source.files()) {
    std::error_code missing;
    const uintmax_t size = std::filesystem::file_size(file, missing);
    if (missing) throw DataError("there is no file " + file.string());
    hash = Fnv1a(file.filename().string() + "\n" + std::to_string(size) + "\n", hash);
    if (file.extension() != ".json") continue;
    std::ifstream stream(file, std::ios::binary);
    std::array<char, 1 << 16> part;
    while (stream.read(part.data(), part.size()) || stream.gcount() > 0) {
      hash = Fnv1a({part.data(), static_cast<size_t>(stream.gcount())}, hash);
    }
    if (!stream.eof()) throw DataError("cannot read " + file.string());
  }
  return hash;
}

}  // namespace fovea::models::training
