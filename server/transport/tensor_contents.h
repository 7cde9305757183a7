// The elements of an inference.InferTensorContents as the bytes that a raw tensor has.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "server/core/tensor.h"

namespace fovea {

// `contents` is the encoded message, kept alive by `owner`; `elements` is what the tensor's shape
// says. The bytes of FP32, FP64 and BYTES elements are shared, those of the other types, which the
// wire packs, are made. INVALID_ARGUMENT: the message is malformed, has elements of another type,
// another number of them, or one that does not fit the type; FP16 and BF16, which have no field.
absl::StatusOr<ScatteredBytes> ReadTensorContents(std::span<const ScatteredBytes::Piece> contents,
                                                  const std::shared_ptr<const void>& owner,
                                                  DataType type, int64_t elements);

}  // namespace fovea
