// Of which class is each pixel of a picture, with Fovea's C++ client: segment HOST:PORT MODEL IMAGE
#include <fstream>
#include <iostream>
#include <iterator>

#include "client/cpp/client.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: segment HOST:PORT MODEL IMAGE\n";
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
      (*client)->Segment({.model = {argv[2]}, .images = {image}}, {.timeout = absl::Seconds(10)});
  if (!answer.ok()) {
    std::cerr << answer.status().message() << '\n';
    return 1;
  }
  // .class_map has the class of each pixel, row by row.
  for (const fovea::client::ClassArea& area : answer->images[0].classes) {
    std::cout << area.label << "  " << area.pixels << " pixels\n";
  }
}
