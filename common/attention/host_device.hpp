// FA_HOST_DEVICE marks what kernels may call too. It is nothing unless nvcc compiles.
#pragma once

#ifdef __CUDACC__
#define FA_HOST_DEVICE __host__ __device__
#else
#define FA_HOST_DEVICE
#endif
