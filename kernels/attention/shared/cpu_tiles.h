// Softmax attention to all keys, or to the nearest ones, on AMX's tiles, as raw memory: bf16, and
// fp32 as sums of three bf16. Values may have another number of channels than queries and keys.
#pragma once
#include <cstdint>

#include "kernels/attention/shared/attention_way.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/attention/shared/select.h"
#include "kernels/simd/amx_layout.h"

namespace fovea::kernels::attend {

// The job of a single head of as many keys as queries; where its tensors begin, and their strides,
// are said later.
TokenSetsJob OneHeadJob(Arithmetic arithmetic, int64_t tokens, int64_t dim, int64_t value_dim);

// Whether this file takes a call: one whose keys and values fit L2 in its form, some
// 1,500 of 64 channels in fp32 and 3,500 in bf16, and whose bias has the keys of a query one after
// the other.
bool FitsTiles(const TokenSetsJob& job);

// Whether a call in this way is one of AttendOnTiles' or AttendNearestOnTiles': kTiles, which is
// only asked for where simd::HasAmxTiles(), and it fits.
bool ByTiles(AttentionWay way, const TokenSetsJob& job);

// Bytes of a thread's scratch, whole cache lines: for AttendOnTiles, for AttendNearestOnTiles.
int64_t TilesScratchBytes(const TokenSetsJob& job);
int64_t NearestTilesScratchBytes(const TokenSetsJob& job);

// The most queries of a block.
inline constexpr int64_t kTileQueries = simd::kSide;

// Attends blocks [begin, end), counted through all heads of all images, job.blocks to a head, cut
// by BlockBegin in vectors of simd::kRegister. job.block_width is kTileQueries. `scratch`: on a
// cache line, TilesScratchBytes(job). Call where a simd::AmxTiles lives on this thread.
void AttendOnTiles(const TokenSetsJob& job, char* scratch, int64_t begin, int64_t end);

// The same of the keys that `selection` selects of each row.
void AttendNearestOnTiles(const TokenSetsJob& job, const knn::Selection& selection, char* scratch,
                          int64_t begin, int64_t end);

}  // namespace fovea::kernels::attend
