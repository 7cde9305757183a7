// Pictures over one call, as a camera has them: stream HOST:PORT MODEL IMAGE...
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include "client/cpp/client.h"

namespace client = fovea::client;

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: stream HOST:PORT MODEL IMAGE...\n";
    return 2;
  }
  auto server = client::Client::Connect(argv[1]);
  if (!server.ok()) {
    std::cerr << server.status().message() << '\n';
    return 3;
  }
  auto stream = (*server)->StreamImages({.order = client::StreamOptions::Order::kAsTheyCome});
  if (!stream.ok()) {
    std::cerr << stream.status().message() << '\n';
    return 1;
  }

  // The server takes so many pictures at a time: Write waits until it takes more. What has no
  // answer within two seconds is not computed.
  std::jthread camera([&] {
    for (int i = 3; i < argc; ++i) {
      std::ifstream file(argv[i], std::ios::binary);
      const std::string image{std::istreambuf_iterator<char>(file), {}};
      const client::ClassifyRequest request{
          .model = {argv[2]}, .images = {image}, .top_k = 1, .id = argv[i]};
      if (!(*stream)->Write(request, absl::Seconds(2))) return;
    }
    (*stream)->WritesDone();
  });

  // A picture that fails does not end the stream.
  int failed = 0;
  while (const auto answer = (*stream)->Read()) {
    std::cout << answer->id << "  ";
    if (!answer->response.ok()) {
      std::cout << answer->response.status().message() << '\n';
      ++failed;
      continue;
    }
    const auto& response = std::get<client::ClassifyResponse>(*answer->response);
    std::cout << response.images[0][0].label << "  " << response.images[0][0].confidence << '\n';
  }
  camera.join();
  const absl::Status ended = (*stream)->Finish();
  if (!ended.ok()) std::cerr << ended.message() << '\n';
  return ended.ok() && failed == 0 ? 0 : 1;
}
