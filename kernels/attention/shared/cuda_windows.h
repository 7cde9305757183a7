// Windows of a map whose tokens attend each other, as a job of cuda_online.h: window_attention, and
// axial_window_attention, where rows and columns are windows too.
//
// Nothing is rolled, padded or cut out: a window knows where its tokens lie in the map as it is. A
// window of the rolled map that holds tokens from both ends of an axis is the last one there; its
// tokens see those of their own end.
#pragma once
#include <cstdint>

#include "kernels/attention/shared/cuda_online.h"
#include "kernels/attention/shared/cuda_tokens.h"

namespace fovea::kernels::cuda {

// One axis of a map and how it is cut.
struct CutAxis {
  int size;    // tokens of the map
  int window;  // tokens of a window
  int shift;   // in [0, window): how far the map is rolled

  // Windows, the last one padded where tokens are left over.
  FOVEA_HOST_DEVICE int Windows() const { return (size + window - 1) / window; }
  // Where in the map, or behind it, token `place` of window `index` lies.
  FOVEA_HOST_DEVICE int Position(int index, int place) const {
    const int rolled = index * window + place + shift;
    const int padded = Windows() * window;
    return rolled < padded ? rolled : rolled - padded;
  }
  FOVEA_HOST_DEVICE bool HoldsBothEnds(int index) const {
    return shift > 0 && index == Windows() - 1;
  }
  // In such a window: whether the token comes from the map's beginning.
  FOVEA_HOST_DEVICE bool IsFromBeginning(int place) const { return place >= window - shift; }
};

inline CutAxis Cut(int64_t size, int64_t window, int64_t shift) {
  return {static_cast<int>(size), static_cast<int>(window), static_cast<int>(shift)};
}

// Some heads of a map, cut into windows in one way.
template <class T>
struct WindowedHeads {
  CutAxis y, x;
  int first_head, heads;
  LogitBias bias;      // of [heads, h*w, h*w]
  const T* pad_key;    // [heads, head_dim], of padded places; null: zeros
  const T* pad_value;  // likewise
  int64_t pad_key_head, pad_value_head;

  FOVEA_HOST_DEVICE int Tokens() const { return y.window * x.window; }
  FOVEA_HOST_DEVICE int64_t Blocks(int64_t batch, int rows) const {
    return batch * heads * y.Windows() * x.Windows() * ((Tokens() + rows - 1) / rows);
  }
};

// kParts: ways of cutting, each for heads of its own.
template <class T, int kParts>
struct WindowsJob {
  using Weights = OnlineSoftmax;
  static constexpr int kTaps = 1;
  static constexpr bool kResumes = false, kSuspends = false;

  JobSize size;
  OnlineSoftmax::Parameters weights;
  Map<const T> query, key, value;
  Map<T> output;
  int64_t batch;
  float scale;
  WindowedHeads<T> parts[kParts];

  class Sequence {
   public:
    struct Row {
      const float* bias;
      int end;
    };
    struct Column {
      int64_t bias;
      int end;
    };

    int first, queries, keys;

    __device__ Sequence(const WindowsJob& job, const WindowedHeads<T>& part, int64_t b, int head,
                        int window_y, int window_x, int first)
        : first(first),
          queries(part.Tokens()),
          keys(part.Tokens()),
          job_(job),
          part_(part),
          query_(job.query.Of(b, part.first_head + head)),
          key_(job.key.Of(b, part.first_head + head)),
          value_(job.value.Of(b, part.first_head + head)),
          output_(job.output.Of(b, part.first_head + head)),
          bias_(part.bias.Row(0, head, 0)),
          head_(head),
          window_y_(window_y),
          window_x_(window_x),
          ends_y_(part.y.HoldsBothEnds(window_y)),
          ends_x_(part.x.HoldsBothEnds(window_x)) {}

    FOVEA_HOST_DEVICE static int QueryRows(int rows) { return rows; }
    __device__ static int LeftRow(int, int i, int) { return i; }

    __device__ const T* QueryRow(int i, int) const {
      if (first + i >= queries) return nullptr;
      const Place at = PlaceOf(first + i);
      return at.is_padding ? nullptr : query_ + at.y * job_.query.row + at.x * job_.query.column;
    }
    __device__ const T* Key(int, int j) const {
      const Place at = PlaceOf(j);
      if (!at.is_padding) return key_ + at.y * job_.key.row + at.x * job_.key.column;
      return part_.pad_key == nullptr ? nullptr : part_.pad_key + head_ * part_.pad_key_head;
    }
    __device__ const T* Value(int j) const {
      const Place at = PlaceOf(j);
      if (!at.is_padding) return value_ + at.y * job_.value.row + at.x * job_.value.column;
      return part_.pad_value == nullptr ? nullptr : part_.pad_value + head_ * part_.pad_value_head;
    }
    __device__ T* Output(int i) const {
      const Place at = PlaceOf(i);
      return at.is_padding ? nullptr : output_ + at.y * job_.output.row + at.x * job_.output.column;
    }

    __device__ Row RowOf(int i) const {
      return {bias_ == nullptr ? nullptr : bias_ + i * part_.bias.query, EndOf(i)};
    }
    __device__ Column ColumnOf(int j) const { return {j * part_.bias.key, EndOf(j)}; }
    __device__ float Logit(float product, Row row, Column column) const {
      if (row.end != column.end) return -INFINITY;
      return row.bias == nullptr ? product * job_.scale
                                 : fmaf(product, job_.scale, row.bias[column.bias]);
    }

   private:
    struct Place {
      int64_t y, x;
      bool is_padding;
    };

    __device__ Place PlaceOf(int token) const {
      const int row = token / part_.x.window;
      const int y = part_.y.Position(window_y_, row);
      const int x = part_.x.Position(window_x_, token - row * part_.x.window);
      return {y, x, y >= part_.y.size || x >= part_.x.size};
    }

    // Which ends of the map a token comes from; alike where they see each other.
    __device__ int EndOf(int token) const {
      if (!ends_y_ && !ends_x_) return 0;
      const int row = token / part_.x.window;
      const int column = token - row * part_.x.window;
      return (ends_y_ && part_.y.IsFromBeginning(row) ? 1 : 0) +
             (ends_x_ && part_.x.IsFromBeginning(column) ? 2 : 0);
    }

    const WindowsJob& job_;
    const WindowedHeads<T>& part_;
    const T *query_, *key_, *value_;
    T* output_;
    const float* bias_;
    int head_, window_y_, window_x_;
    bool ends_y_, ends_x_;
  };

  int64_t Blocks(int rows) const {
    int64_t blocks = 0;
    for (const WindowedHeads<T>& part : parts) blocks += part.Blocks(batch, rows);
    return blocks;
  }

  // Heads come first: those of one token lie side by side in memory.
  __device__ Sequence At(int64_t block, int rows) const {
    int which = 0;
    while (which + 1 < kParts && block >= parts[which].Blocks(batch, rows)) {
      block -= parts[which++].Blocks(batch, rows);
    }
    const WindowedHeads<T>& part = parts[which];
    const int row_blocks = (part.Tokens() + rows - 1) / rows;
    const int first = static_cast<int>(block % row_blocks) * rows;
    block /= row_blocks;
    const int head = static_cast<int>(block % part.heads);
    block /= part.heads;
    const int x = static_cast<int>(block % part.x.Windows());
    block /= part.x.Windows();
    const int y = static_cast<int>(block % part.y.Windows());
    return Sequence(*this, part, block / part.y.Windows(), head, y, x, first);
  }
};

// From a bias [heads, h*w, h*w].
inline LogitBias WindowBiasOf(const std::optional<at::Tensor>& bias) {
  if (!bias) return {};
  return {bias->const_data_ptr<float>(), 0, bias->stride(0), bias->stride(1), bias->stride(2)};
}

// All but the parts, the longest of whose windows has `tokens`.
template <class T, int kParts, class Inputs>
WindowsJob<T, kParts> WindowsJobOf(const Inputs& in, const at::Tensor& output, int64_t tokens,
                                   bool vectors) {
  WindowsJob<T, kParts> job{};
  job.size = SizeOf(in.query.size(4), tokens, tokens,
                    vectors && AreVectorAligned({in.query, in.key, in.value, output}));
  job.query = MapOf<T>(in.query);
  job.key = MapOf<T>(in.key);
  job.value = MapOf<T>(in.value);
  job.output = WritableMapOf<T>(output);
  job.batch = in.query.size(0);
  job.scale = static_cast<float>(in.scale);
  return job;
}

}  // namespace fovea::kernels::cuda
