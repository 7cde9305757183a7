// What a model does without a server around it: calls it in this process, as the executor does, and
// prints JSON.
//   bench_raw_model [--keep-pages] BACKBONE THREADS SECONDS BATCH...
// --keep-pages: the allocator keeps what a pass freed. By default glibc gives the top of a main
// thread's heap back to the kernel after each pass, and the next one faults it in again. ->
// {"threads": 2, "runs": [{"batch": 1, "p50_us": 123.4, "images_per_second": 8100.0}, ...]}
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"

namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Microseconds of each call, sorted, for `seconds`, after a warm-up.
std::vector<double> Time(const fovea::models::Model& model, const at::Tensor& input,
                         double seconds) {
  fovea::models::ForwardContext context;
  for (int i = 0; i < 3; ++i) model.Run(input, context);
  std::vector<double> times;
  const auto start = Clock::now();
  while (MicrosecondsSince(start) < seconds * 1e6 || times.size() < 5) {
    const auto call = Clock::now();
    model.Run(input, context);
    times.push_back(MicrosecondsSince(call));
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--keep-pages") {
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    ++argv, --argc;
  }
  if (argc < 5) {
    std::fprintf(stderr,
                 "usage: bench_raw_model [--keep-pages] BACKBONE THREADS SECONDS BATCH...\n");
    return 2;
  }
  const int threads = std::atoi(argv[2]);
  const double seconds = std::atof(argv[3]);
  at::set_num_threads(threads);

  fovea::models::ModelDescription description;
  description.name = argv[1];
  description.backbone = argv[1];
  description.random_weights_seed = 1;
  const auto model = fovea::models::LoadModel(description);
  model->Prepare(at::kCPU, description.precision);

  std::printf("{\"threads\": %d, \"runs\": [", threads);
  for (int i = 4; i < argc; ++i) {
    const int batch = std::atoi(argv[i]);
    const auto& info = model->info();
    const at::Tensor input =
        info.pixel_input == fovea::models::PixelInput::kBytes
            ? at::randint(0, 256, {batch, info.image_height, info.image_width, 3}, at::kByte)
            : at::randn({batch, 3, info.image_height, info.image_width});
    const std::vector<double> times = Time(*model, input, seconds);
    const double p50 = times[times.size() / 2];
    const double total = std::accumulate(times.begin(), times.end(), 0.0);
    std::printf("%s{\"batch\": %d, \"p50_us\": %.2f, \"images_per_second\": %.2f}",
                i > 4 ? ", " : "", batch, p50, batch * times.size() / total * 1e6);
  }
  std::printf("]}\n");
}
