// Who makes a call, as its transport has found out.
#pragma once

#include <string>
#include <string_view>

namespace fovea {

struct Caller {
  std::string_view protocol;  // "grpc"; a constant
  std::string principal;      // whom the caller has proved to be; empty: nobody in particular
};

}  // namespace fovea
