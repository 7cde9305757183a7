// The elements of an inference.InferTensorContents, and the bytes that a raw tensor has.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/core/request_memory.h"
#include "server/core/tensor.h"
#include "server/transport/grpc/encoded_message.h"

namespace fovea {

// What one request may still ask to be read of typed contents: the work is done number by number,
// on the thread that received the message. Raw contents need none of it.
struct ContentsBudget {
  int64_t converted_elements = limits::kMaxConvertedElements;
  int64_t fields = limits::kMaxContentsFields;
  RequestMemory* memory = nullptr;  // for what is made of them; null: nobody counts
};

// `contents` is the encoded message, kept alive by `owner`; `elements` is what the tensor's shape
// says. The bytes of FP32, FP64 and BYTES elements are shared, those of the other types, which the
// wire packs, are made. INVALID_ARGUMENT: the message is malformed, has elements of another type,
// another number of them, or one that does not fit the type; FP16 and BF16, which have no field.
// RESOURCE_EXHAUSTED: more than is left of `budget`, which what is read is taken off. And what
// RequestMemory::Take says.
absl::StatusOr<ScatteredBytes> ReadTensorContents(std::span<const ScatteredBytes::Piece> contents,
                                                  const std::shared_ptr<const void>& owner,
                                                  DataType type, int64_t elements,
                                                  ContentsBudget* budget);

// False: elements of the type come in raw contents only.
bool HasTypedContents(DataType type);

// `output` as an encoded inference.InferTensorContents, which takes its data. Its type has typed
// contents.
EncodedMessage WriteTensorContents(OutputTensor output);

// Bytes of WriteTensorContents' message at most.
int64_t TypedContentsBytes(const OutputTensor& output);

}  // namespace fovea
