// Marks what runs on the host and on the device, in headers that host compilers read too.
#pragma once

#if defined(__CUDACC__)
#define FOVEA_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define FOVEA_HOST_DEVICE inline
#endif
