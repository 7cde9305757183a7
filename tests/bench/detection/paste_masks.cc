// Pastes the masks of one answer into the caller's picture over and over, as the server does, on
// one thread; then again, with what telling them as run lengths takes:
//   bench_paste_masks BOXES MASKS HEIGHT WIDTH SECONDS
// BOXES and MASKS hold FP32 [n, 4], in pixels of the picture of HEIGHT x WIDTH, and FP32
// [n, 28, 28], both raw. By torchvision's conventions. Prints one line of JSON:
// {"masks": 100, "pixels": 1234567, "p50_ms": 3.2, "run_lengths_p50_ms": 4.1}
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

// The pixels of all objects together, and where they are told the characters that tell them.
int64_t Paste(std::span<const float> boxes, std::span<const float> masks,
              const fovea::ImageSize& picture, bool told) {
  constexpr size_t kPlaces = kSide * kSide;
  int64_t sum = 0;
  for (size_t i = 0; i < boxes.size() / 4; ++i) {
    const fovea::Box box{boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]};
    const fovea::PastedMask pasted = fovea::PasteMask(
        masks.subspan(i * kPlaces, kPlaces), kSide, box, picture, fovea::MaskPasting::kTorchvision);
    sum += pasted.pixels;
    if (told) sum += std::ssize(fovea::RunLengthsOf(pasted, picture));
  }
  return sum;
}

// The median milliseconds; negative where two calls differ.
template <typename Call>
double Median(double seconds, const Call& call) {
  const int64_t expected = call();  // the first time, untimed
  std::vector<double> times;
  const auto start = Clock::now();
  while (Clock::now() - start < std::chrono::duration<double>(seconds) || times.size() < 5) {
    const auto begin = Clock::now();
    if (call() != expected) return -1;
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
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
  const auto paste = [&](bool told) { return Paste(boxes, masks, picture, told); };
  const double pasted = Median(seconds, [&] { return paste(/*told=*/false); });
  const double told = Median(seconds, [&] { return paste(/*told=*/true); });
  if (pasted < 0 || told < 0) return 1;
  std::printf(
      "{\"masks\": %zu, \"pixels\": %lld, \"p50_ms\": %.4f, \"run_lengths_p50_ms\": %.4f}\n",
      boxes.size() / 4, static_cast<long long>(paste(/*told=*/false)), pasted, told);
}
