// Convolutional static-key attention as a job of shared/cuda_online.h: an implicit GEMM.
//
// A tile of logits is the sum of nine products, one for each tap of the convolution: the queries,
// displaced by the tap, times the weights of that tap. The displaced queries of a block are rows of
// three strips of the map that lie in shared memory once, one for each dy; what lies outside the
// map is a row of zeros. The class key is a convolution whose only weights are the centre's, and
// the class token a position whose only neighbour is itself.
#pragma once
#include <cstdint>

#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/shared/cuda_online.h"
#include "kernels/attention/shared/cuda_tokens.h"

namespace fovea::kernels {

template <class T, class WeightsType>
struct ConvStaticKeyJob {
  using Weights = WeightsType;
  static constexpr int kTaps = 9;
  static constexpr bool kResumes = false, kSuspends = false;

  cuda::JobSize size;
  typename Weights::Parameters weights;
  cuda::Tokens<const T> query, value;
  cuda::Tokens<T> output;
  const T* kernel;    // [heads, positions, taps, head_dim]
  const T* bias;      // [heads, positions]; null: none
  const T* cls_key;   // [heads, head_dim]; null: no class token
  int64_t bias_step;  // from one to the next
  int64_t batch, heads;
  int height, width;
  float scale;

  class Sequence {
   public:
    struct Row {};
    using Column = float;  // the key's bias

    int first, queries, keys;

    __device__ Sequence(const ConvStaticKeyJob& job, int64_t b, int64_t h, int first)
        : first(first),
          queries(job.size.queries),
          keys(job.size.keys),
          job_(job),
          prefix_(job.cls_key == nullptr ? 0 : 1),
          positions_(job.height * job.width),
          query_(job.query.Of(b, h)),
          value_(job.value.Of(b, h)),
          output_(job.output.Of(b, h)),
          kernel_(job.kernel + h * positions_ * kTaps * job.size.dim),
          bias_(job.bias == nullptr ? nullptr : job.bias + h * positions_ * job.bias_step),
          cls_key_(job.cls_key == nullptr ? nullptr : job.cls_key + h * job.size.dim) {}

    // Three strips, with a neighbour on either side, and the zeros.
    FOVEA_HOST_DEVICE static int QueryRows(int rows) { return 3 * StripRows(rows) + 1; }

    __device__ const T* QueryRow(int i, int rows) const {
      const int strip = i / StripRows(rows);
      if (strip == 3) return nullptr;
      const int place = i - strip * StripRows(rows);
      const int position = first - prefix_ + (strip - 1) * job_.width + place - 1;
      const bool is_class = position == -1 && prefix_ == 1 && strip == 1;
      if (!is_class && (position < 0 || position >= positions_)) return nullptr;
      return query_ + int64_t{position + prefix_} * job_.query.token;
    }

    __device__ int LeftRow(int step, int i, int rows) const {
      const int zeros = 3 * StripRows(rows);
      const int dy = TapAt(step) / 3 - 1;
      const int dx = TapAt(step) % 3 - 1;
      const int position = first + i - prefix_;
      if (position >= positions_) return zeros;
      if (position < 0) {
        if (dy != 0 || dx != 0) return zeros;
      } else {
        const int y = position / job_.width + dy;
        const int x = position % job_.width + dx;
        if (y < 0 || y >= job_.height || x < 0 || x >= job_.width) return zeros;
      }
      return (dy + 1) * StripRows(rows) + i + 1 + dx;
    }

    __device__ const T* Key(int step, int j) const {
      const int tap = TapAt(step);
      if (j < prefix_) return tap == kCentre ? cls_key_ : nullptr;
      return kernel_ + (int64_t{j - prefix_} * kTaps + tap) * job_.size.dim;
    }
    __device__ const T* Value(int j) const { return value_ + j * job_.value.token; }
    __device__ T* Output(int i) const { return output_ + i * job_.output.token; }

    // What eight taps of zeros made of the class key's logits is zero, even if a query is infinite.
    template <int kN>
    __device__ void BeforeLastTap(float (&logits)[kN][4]) const {
      if (prefix_ == 1 && cuda::LaneId() % 4 == 0) logits[0][0] = logits[0][2] = 0.0f;
    }

    __device__ Row RowOf(int) const { return {}; }
    __device__ Column ColumnOf(int j) const {
      if (bias_ == nullptr || j < prefix_) return 0.0f;
      return static_cast<float>(bias_[(j - prefix_) * job_.bias_step]);
    }
    __device__ float Logit(float product, Row, Column bias) const {
      return (product + bias) * job_.scale;
    }

   private:
    static constexpr int kCentre = 4;

    FOVEA_HOST_DEVICE static int StripRows(int rows) { return rows + 2; }
    // The centre comes last.
    __device__ static int TapAt(int step) {
      return step == kTaps - 1 ? kCentre : step < kCentre ? step : step + 1;
    }

    const ConvStaticKeyJob& job_;
    const int prefix_, positions_;
    const T *query_, *value_;
    T* output_;
    const T *kernel_, *bias_, *cls_key_;
  };

  int64_t Blocks(int rows) const { return batch * heads * ((size.queries + rows - 1) / rows); }

  __device__ Sequence At(int64_t block, int rows) const {
    const int per_head = (size.queries + rows - 1) / rows;
    const int64_t sequence = block / per_head;
    return Sequence(*this, sequence / heads, sequence % heads,
                    static_cast<int>(block % per_head) * rows);
  }
};

// [heads * positions, 3, 3, head_dim]: each tap's weights side by side, as a tile needs them.
// Copies nothing where the weight is in channels_last.
inline at::Tensor KernelByTap(const at::Tensor& weight) {
  return weight.permute({0, 2, 3, 1}).contiguous();
}

// Weights: what in.activation takes. `kernel`: KernelByTap(in.weight). in.cls_key is contiguous.
template <class T, class Weights>
ConvStaticKeyJob<T, Weights> MakeJob(const ConvStaticKeyAttentionInputs& in,
                                     const at::Tensor& kernel, const at::Tensor& output) {
  ConvStaticKeyJob<T, Weights> job{};
  const int64_t tokens = in.query.size(2);
  job.size = cuda::SizeOf(in.query.size(3), tokens, tokens,
                          cuda::AreVectorAligned({in.query, in.value, kernel, output}) &&
                              (!in.cls_key || cuda::AreVectorAligned({*in.cls_key})));
  job.weights = Weights::ParametersOf(in.activation);
  job.query = cuda::TokensOf<T>(in.query);
  job.value = cuda::TokensOf<T>(in.value);
  job.output = cuda::WritableTokensOf<T>(output);
  job.kernel = cuda::ReadOnly<T>(kernel);
  if (in.bias) {
    job.bias = cuda::ReadOnly<T>(*in.bias);
    job.bias_step = in.bias->stride(0);
  }
  if (in.cls_key) job.cls_key = cuda::ReadOnly<T>(*in.cls_key);
  job.batch = in.query.size(0);
  job.heads = in.query.size(1);
  job.height = static_cast<int>(in.grid[0]);
  job.width = static_cast<int>(in.grid[1]);
  job.scale = static_cast<float>(in.scale);
  return job;
}

}  // namespace fovea::kernels
