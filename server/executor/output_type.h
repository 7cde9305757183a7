// The type of a model's output, as a request names it.
#pragma once

#include "model_zoo/model_description.h"
#include "server/core/tensor.h"

namespace fovea {

inline DataType OutputType(const models::ModelInfo::Output& output) {
  switch (output.type) {
    case models::ElementType::kByte:
      return DataType::kUint8;
    case models::ElementType::kInt64:
      return DataType::kInt64;
    case models::ElementType::kFloat:
      break;
  }
  return DataType::kFp32;
}

}  // namespace fovea
