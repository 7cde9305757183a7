// Decodes and resizes the files of a list, for the comparison with Pillow, torchvision and timm.
//
// Reads lines from the standard input and writes raw 8-bit RGB to the standard output, one result
// after the other:
//   decode FILE
//   preprocess HEIGHT WIDTH shortest|squash|fit CROP_FRACTION bilinear|bicubic exact|fast FILE
// (of fit the window alone, without what fills the input up)
//   time COUNT HEIGHT ... FILE    the same so many times, each with the normalisation that the
//                                 executor does; one line with the median in nanoseconds
// A file that is refused ends the program with 1.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "server/executor/normalise.h"
#include "server/imaging/preprocess.h"
#include "server/imaging/probe.h"

namespace fovea {
namespace {

std::vector<std::byte> ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

void Write(std::span<const uint8_t> pixels) {
  std::fwrite(pixels.data(), 1, pixels.size(), stdout);
}

absl::Status Decode(const std::string& path) {
  const std::vector<std::byte> file = ReadFile(path);
  FOVEA_ASSIGN_OR_RETURN(const ImageInfo info, ProbeImage(file, {}));
  FOVEA_ASSIGN_OR_RETURN(const RgbImage image, DecodeImage(file, info));
  Write(image.bytes());
  return absl::OkStatus();
}

struct Job {
  PreprocessSpec spec;
  std::vector<std::byte> file;
};

absl::StatusOr<Job> ReadJob() {
  Job job;
  PreprocessSpec& spec = job.spec;
  std::string mode, interpolation, decoding, path;
  std::cin >> spec.sizes[0].height >> spec.sizes[0].width >> mode >> spec.crop_fraction >>
      interpolation >> decoding >> path;
  spec.resize_mode = mode == "squash" ? ResizeMode::kSquash
                     : mode == "fit"  ? ResizeMode::kFit
                                      : ResizeMode::kShortestEdge;
  spec.fast_decode = decoding == "fast";
  spec.interpolation =
      interpolation == "bilinear" ? Interpolation::kBilinear : Interpolation::kBicubic;
  FOVEA_RETURN_IF_ERROR(CheckPreprocessSpec(spec));
  job.file = ReadFile(path);
  return job;
}

absl::StatusOr<ResizedImage> Run(const Job& job) {
  static MemoryBudget budget(int64_t{1} << 32, SteadyClock());
  const ScatteredBytes file(std::as_bytes(std::span(job.file)), nullptr);
  return DecodeAndResize(file, job.spec, {}, {.budget = budget, .clock = SteadyClock()});
}

absl::Status Preprocess() {
  FOVEA_ASSIGN_OR_RETURN(const Job job, ReadJob());
  FOVEA_ASSIGN_OR_RETURN(const ResizedImage image, Run(job));
  Write(image.rgb);
  return absl::OkStatus();
}

absl::Status Time() {
  int count = 0;
  std::cin >> count;
  FOVEA_ASSIGN_OR_RETURN(const Job job, ReadJob());
  const Normalisation normalisation =
      Normalisation::From({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F});
  std::vector<float> planes;
  std::vector<Nanos> took;
  for (int i = 0; i < count; ++i) {
    const Nanos start = SteadyClock().Now();
    FOVEA_ASSIGN_OR_RETURN(const ResizedImage image, Run(job));
    const ImageTransform& seen = image.transform;
    planes.resize(image.rgb.size());
    NormaliseImage(image.rgb.data(), seen.height, seen.width, normalisation, planes.data(),
                   {.row = seen.width, .plane = seen.width * seen.height});
    took.push_back(SteadyClock().Now() - start);
  }
  std::ranges::nth_element(took, took.begin() + count / 2);
  std::cout << took[count / 2] << std::endl;
  return absl::OkStatus();
}

absl::Status RunLine(const std::string& command) {
  if (command == "preprocess") return Preprocess();
  if (command == "time") return Time();
  std::string path;
  std::cin >> path;
  return Decode(path);
}

}  // namespace
}  // namespace fovea

int main() {
  for (std::string command; std::cin >> command;) {
    if (const absl::Status status = fovea::RunLine(command); !status.ok()) {
      std::cerr << status.message() << "\n";
      return 1;
    }
  }
}
