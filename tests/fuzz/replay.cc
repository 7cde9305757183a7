// replay CORPUS: feeds every file of CORPUS/TARGET to its target, and tells how many there were.
// Exits 1 where a target has no corpus, or a corpus no target; where something does not hold the
// process ends.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "Usage: replay CORPUS\n";
    return 2;
  }
  const std::filesystem::path corpus = argv[1];
  int exit_code = 0;
  for (const auto& [name, target] : fovea::FuzzTargets()) {
    int files = 0;
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(corpus / name, missing)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      // In memory of its own: a read past its end is one that AddressSanitizer sees.
      const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
      std::cout << name << ' ' << entry.path().filename().string()
                << std::endl;  // flushed: the last one failed
      target(fovea::FuzzInput(copy.data(), copy.size()));
      ++files;
    }
    if (files == 0) {
      std::cerr << name << " has no corpus\n";
      exit_code = 1;
    }
  }
  for (const auto& folder : std::filesystem::directory_iterator(corpus)) {
    if (fovea::FuzzTargets().contains(folder.path().filename().string())) continue;
    std::cerr << folder.path().filename().string() << " has no target\n";
    exit_code = 1;
  }
  return exit_code;
}
