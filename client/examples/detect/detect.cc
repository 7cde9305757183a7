// What is where in a picture, with Fovea's C++ client: detect HOST:PORT MODEL IMAGE
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>

#include "client/cpp/client.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: detect HOST:PORT MODEL IMAGE\n";
    return 2;
  }
  auto client = fovea::client::Client::Connect(argv[1]);
  if (!client.ok()) {
    std::cerr << client.status().message() << '\n';
    return 3;
  }
  std::ifstream file(argv[3], std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};

  const auto answer =
      (*client)->Detect({.model = {argv[2]}, .images = {image}, .score_threshold = 0.5F},
                        {.timeout = absl::Seconds(10)});
  if (!answer.ok()) {
    std::cerr << answer.status().message() << '\n';
    return 1;
  }
  std::cout << std::fixed;
  for (const fovea::client::Detection& found : answer->images[0].detections) {
    const auto& [left, top, right, bottom] = found.box;  // in pixels of the picture
    std::cout << found.label << "  " << std::setprecision(3) << found.score << "  "
              << std::setprecision(1) << left << ' ' << top << ' ' << right << ' ' << bottom
              << '\n';
  }
}
