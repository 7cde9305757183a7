// The smallest program with Fovea's C++ client: classify HOST:PORT MODEL IMAGE
#include <fstream>
#include <iostream>
#include <iterator>

#include "client/cpp/client.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: classify HOST:PORT MODEL IMAGE\n";
    return 2;
  }
  auto client = fovea::client::Client::Connect(argv[1]);
  if (!client.ok()) {
    std::cerr << client.status().message() << '\n';
    return 3;
  }
  std::ifstream file(argv[3], std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};

  // The deadline travels with the request: the server drops work that cannot be done in time.
  const auto answer = (*client)->Classify({.model = {argv[2]}, .images = {image}, .top_k = 3},
                                          {.timeout = absl::Seconds(2)});
  if (!answer.ok()) {
    std::cerr << answer.status().message() << '\n';
    return 1;
  }
  for (const fovea::client::ClassScore& score : answer->images[0]) {
    std::cout << score.label << "  " << score.confidence << '\n';
  }
  std::cout << "computed in " << answer->receipt.compute() << ", in a batch of "
            << answer->receipt.batch_size << '\n';
}
