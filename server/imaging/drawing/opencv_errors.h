// Converts OpenCV's exceptions to the standard library's.
#pragma once

#include <new>
#include <opencv2/core.hpp>

namespace fovea {

// Throws std::bad_alloc where OpenCV has found no memory, and `error` itself otherwise. For the
// handler of a function-try-block.
[[noreturn]] inline void ThrowAsStandard(const cv::Exception& error) {
  if (error.code == cv::Error::StsNoMem) throw std::bad_alloc();
  throw error;
}

}  // namespace fovea
