// Answers of gRPC's reflection: what services there are, and the files that describe them.
#pragma once

#include <span>
#include <string_view>

#include "proto/grpc/reflection/v1/reflection.pb.h"

namespace fovea {

// Thread-safe. The files are those that are compiled into this program.
grpc::reflection::v1::ServerReflectionResponse AnswerReflection(
    const grpc::reflection::v1::ServerReflectionRequest& question,
    std::span<const std::string_view> services);

}  // namespace fovea
