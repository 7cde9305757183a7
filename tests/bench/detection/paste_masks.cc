// Pastes the masks of one answer into the caller's picture over and over, as the server does, on
// one thread:
//   bench_paste_masks BOXES MASKS HEIGHT WIDTH SECONDS
// BOXES and MASKS hold FP32 [n, 4], in pixels of the picture of HEIGHT x WIDTH, and FP32
// [n, 28, 28], both raw. By torchvision's conventions. Prints one line of JSON:
// {"masks": 100, "pixels": 1234567, "rounds": 321, "p50_ms": 3.2}
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "server/postprocess/instance_mask.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSide = 28;

std::vector<float> Numbers(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
  return numbers;
}

// The pixels of all objects together.
int64_t Paste(std::span<const float> boxes, std::span<const float> masks,
              const fovea::ImageSize& picture) {
  constexpr size_t kPlaces = kSide * kSide;
  int64_t pixels = 0;
  for (size_t i = 0; i < boxes.size() / 4; ++i) {
    const fovea::Box box{boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]};
    pixels += fovea::PasteMask(masks.subspan(i * kPlaces, kPlaces), kSide, box, picture,
                               fovea::MaskPasting::kTorchvision)
                  .pixels;
  }
  return pixels;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: bench_paste_masks BOXES MASKS HEIGHT WIDTH SECONDS\n");
    return 2;
  }
  const std::vector<float> boxes = Numbers(argv[1]), masks = Numbers(argv[2]);
  if (boxes.empty() || boxes.size() % 4 != 0 || masks.size() != boxes.size() / 4 * kSide * kSide) {
    std::fprintf(stderr, "bench_paste_masks: %zu numbers of boxes and %zu of masks\n", boxes.size(),
                 masks.size());
    return 2;
  }
  const fovea::ImageSize picture{std::atoll(argv[3]), std::atoll(argv[4])};
  const double seconds = std::atof(argv[5]);
  const int64_t pixels = Paste(boxes, masks, picture);  // the first time, untimed
  std::vector<double> times;
  const auto start = Clock::now();
  while (Clock::now() - start < std::chrono::duration<double>(seconds) || times.size() < 5) {
    const auto call = Clock::now();
    if (Paste(boxes, masks, picture) != pixels) return 1;
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - call).count());
  }
  std::ranges::sort(times);
  std::printf("{\"masks\": %zu, \"pixels\": %lld, \"rounds\": %zu, \"p50_ms\": %.4f}\n",
              boxes.size() / 4, static_cast<long long>(pixels), times.size(),
              times[times.size() / 2]);
}
