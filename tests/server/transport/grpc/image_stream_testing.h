// Requests of StreamImages, and a caller who reads the answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {

inline v1::StreamImagesRequest StreamedClassify(const std::string& id = "") {
  v1::StreamImagesRequest request;
  request.mutable_classify()->set_model_name("vit");
  request.mutable_classify()->set_id(id);
  request.mutable_classify()->add_images("a picture");
  return request;
}

// Its answer is as long.
inline v1::StreamImagesRequest StreamedSegment(size_t bytes) {
  v1::StreamImagesRequest request;
  request.mutable_segment()->set_model_name("vit");
  request.mutable_segment()->add_images(std::string(bytes, 'x'));
  return request;
}

inline v1::StreamImagesRequest AsTheyCome(v1::StreamImagesRequest request) {
  request.set_order(v1::StreamImagesRequest::AS_THEY_COME);
  return request;
}

class ImageStreamTest : public GrpcServerTest {
 protected:
  using Stream = grpc::ClientReaderWriter<v1::StreamImagesRequest, v1::StreamImagesResponse>;

  std::vector<FakeInference::Held> TakeAll(int requests) {
    std::vector<FakeInference::Held> held;
    for (int i = 0; i < requests; ++i) held.push_back(inference_.Take());
    return held;
  }

  static v1::StreamImagesResponse Read(Stream& stream) {
    v1::StreamImagesResponse response;
    EXPECT_TRUE(stream.Read(&response));
    return response;
  }
  static std::vector<uint64_t> ReadNumbers(Stream& stream, int answers) {
    std::vector<uint64_t> numbers;
    for (int i = 0; i < answers; ++i) numbers.push_back(Read(stream).number());
    return numbers;
  }
};

}  // namespace fovea
