// k-NN attention: each query attends only its k most similar keys.
//   KVT (Wang et al., ECCV 2022), equation 3, the fast version: similar means the largest logits.
//   Cost: 4*B*H*Nq*Nk*D FLOPs; no Nq x Nk buffer in memory, except while gradients are computed.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace fovea::kernels {

// Softmax over the `topk` largest of each row's logits, every other weight zero, times value.
//   logits = query @ key^T * scale + bias, accumulated, biased and selected in fp32 whatever the
//   input type (in fp64 for fp64 inputs).
//
// query: [B, H, Nq, D]; key, value: [B, H, Nk, D]; one type and device, no dimension but B and H
//   empty. Strides are free (views of one QKV tensor are read in place), the last dimension is
//   contiguous. fp32 and bf16 run vectorised on the CPU; fp32, bf16 and fp16 on CUDA; what an
//   implementation lacks (fp64 anywhere, fp16 on the CPU) runs on the reference.
// topk: in [1, Nk], a count of keys. Ties go to the lower key index.
// scale: finite; 1/sqrt(D) if not given.
// bias: broadcasts to [B, H, Nq, Nk]; fp32 or query's type. -inf masks a key: a row with fewer than
//   `topk` finite logits attends all of them, a row with none is zero. A row with a NaN or a +inf
//   logit is NaN, as in softmax.
//
// Returns [B, H, Nq, D] in query's type, laid out in memory as [B, Nq, H, D]: transposing (1, 2)
//   and flattening the last two dimensions is a view, so the projection that follows copies
//   nothing.
// Differentiable in query, key, value and bias (twice); which keys are selected counts as constant.
// Goes through the dispatcher, as torch.ops.fovea.knn_attention. FOVEA_FORCE_KERNEL (dispatch.h)
//   picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor KnnAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        int64_t topk, std::optional<double> scale = std::nullopt,
                        const std::optional<at::Tensor>& bias = std::nullopt);

}  // namespace fovea::kernels
