// Non-maximum suppression on CUDA: what a thread block does. Device code only; cuda.cu launches it,
// and tests/kernels/cuda_on_host runs it where there is no GPU.
//
// First every box is compared with those after it, a block of 64 with a block of 64, into one bit
// each. Then a single thread block walks the boxes, 64 at a time: one thread settles these among
// themselves, which is a chain of 64 cheap steps in registers, and all threads together carry the
// kept ones' bits on to the boxes that follow. So nothing goes to the host.
#pragma once

#include <cstdint>

namespace fovea::kernels::nms {

inline constexpr int kBits = 64;  // boxes in a word and in a block of boxes
inline constexpr int kReduceThreads = 512;

template <class T>
struct CudaJob {
  const T* boxes;     // [count, 4] in the order in which they are taken
  uint64_t* masks;    // [count, words]: whom a box suppresses; words before its own not written
  uint64_t* removed;  // [words], zeros
  bool* keep;         // [count]
  int64_t count, words;
  double iou;
};

// std::max and std::min, also where a NaN is involved.
template <class T>
__device__ __forceinline__ T Larger(T a, T b) {
  return a < b ? b : a;
}
template <class T>
__device__ __forceinline__ T Smaller(T a, T b) {
  return b < a ? b : a;
}

// Whether box `a`, kept, suppresses box `b`. Compiled without fused multiply-adds, so that overlaps
// are rounded as on the CPU.
template <class T>
__device__ __forceinline__ bool Suppresses(const T* a, const T* b, double iou) {
  const T width = Larger(T(0), Smaller(a[2], b[2]) - Larger(a[0], b[0]));
  const T height = Larger(T(0), Smaller(a[3], b[3]) - Larger(a[1], b[1]));
  const T intersection = width * height;
  const T area_a = (a[2] - a[0]) * (a[3] - a[1]);
  const T area_b = (b[2] - b[0]) * (b[3] - b[1]);
  return static_cast<double>(intersection / (area_a + area_b - intersection)) > iou;
}

// A block of kBits threads: kBits rows of masks, one word of each. `shared`: kBits * 4.
template <class T>
__device__ void CompareBlocks(const CudaJob<T>& job, T* shared) {
  const int64_t row_block = blockIdx.x / job.words;
  const int64_t word = blockIdx.x % job.words;
  if (word < row_block) return;
  const int64_t first = word * kBits;
  const int64_t left = job.count - first;
  const int columns = left < kBits ? static_cast<int>(left) : kBits;
  for (int i = threadIdx.x; i < columns * 4; i += kBits) shared[i] = job.boxes[first * 4 + i];
  __syncthreads();
  const int64_t row = row_block * kBits + threadIdx.x;
  if (row >= job.count) return;
  const T* box = job.boxes + row * 4;
  uint64_t bits = 0;
  for (int i = word == row_block ? threadIdx.x + 1 : 0; i < columns; ++i) {
    if (Suppresses(box, shared + i * 4, job.iou)) bits |= uint64_t{1} << i;
  }
  job.masks[row * job.words + word] = bits;
}

// One block of any number of threads, at least kBits. `shared`: kBits + 1.
template <class T>
__device__ void Reduce(const CudaJob<T>& job, uint64_t* shared) {
  uint64_t& kept = shared[kBits];
  for (int64_t word = 0; word < job.words; ++word) {
    const int64_t first = word * kBits;
    const int64_t left = job.count - first;
    const int rows = left < kBits ? static_cast<int>(left) : kBits;
    const uint64_t* masks = job.masks + first * job.words;
    if (static_cast<int>(threadIdx.x) < rows) {
      shared[threadIdx.x] = masks[threadIdx.x * job.words + word];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint64_t removed = job.removed[word];
      kept = 0;
      for (int i = 0; i < rows; ++i) {
        if (removed >> i & 1) continue;
        kept |= uint64_t{1} << i;
        removed |= shared[i];
      }
    }
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < rows) {
      job.keep[first + threadIdx.x] = (kept >> threadIdx.x & 1) != 0;
    }
    for (int64_t next = word + 1 + threadIdx.x; next < job.words; next += blockDim.x) {
      uint64_t removed = job.removed[next];
      for (int i = 0; i < rows; ++i) {
        if (kept >> i & 1) removed |= masks[i * job.words + next];
      }
      job.removed[next] = removed;
    }
    __syncthreads();
  }
}

}  // namespace fovea::kernels::nms
