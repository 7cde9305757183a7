// What must hold of a request with tensors, and of its answer, whatever they are written in, and
// can be seen without knowing the model. Errors are INVALID_ARGUMENT, but where it is said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/request.h"
#include "server/core/tensor.h"

namespace fovea {

// At most limits::kMaxRequestIdBytes.
absl::Status CheckRequestId(std::string_view id);

// Parameters of requests and of tensors: their number, and each name. Unknown ones are ignored, as
// Triton ignores them; not so URLs, and UNIMPLEMENTED: shared memory where shared_tensors.h does
// not take it.
absl::Status CheckParameterCount(size_t parameters);
absl::Status CheckParameterName(std::string_view name);
// `name` is no whole number of at least 0.
absl::Status NoCount(std::string_view name);

// Of one input, by its name: it is not empty, and the type is known.
absl::StatusOr<DataType> ReadInputType(std::string_view input, std::string_view datatype);
// 1 to limits::kMaxTensorRank dimensions above 0. The number of elements, which with its bytes is
// no more than a message holds.
absl::StatusOr<int64_t> CheckInputShape(std::string_view input, std::span<const int64_t> shape,
                                        DataType type);
// The data are `elements` elements.
absl::Status CheckInputBytes(const InputTensor& input, int64_t elements);
// "input '<name>' <what>".
absl::Status InputError(std::string_view reason, std::string_view input, std::string_view what);

// Of them all: at most limits::kMaxInputsPerRequest of each, and named once.
absl::Status CheckInputCount(size_t inputs);
absl::Status AddInput(InputTensor input, NamedTensors* inputs);
absl::Status CheckOutputCount(size_t outputs);
// `classes`: of Triton's classification extension.
absl::Status AddOutput(std::string_view name, uint64_t classes,
                       std::optional<SharedMemorySpan> shared_memory, WantedTensors* wanted);

// Whether an answer of so many bytes may leave, asked before it is encoded: protobuf gives an empty
// message for one that is too long, which a caller would take for an answer. RESOURCE_EXHAUSTED
// request.answer_too_large.
absl::Status CheckAnswerBytes(size_t bytes, size_t max_bytes);

}  // namespace fovea
