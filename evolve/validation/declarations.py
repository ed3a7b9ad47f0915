"""What emitted kernels use of CUDA that the frontend's own declarations lack: for parsing, never compiled.

Compilers other than NVRTC and nvcc see plain accesses where these see instructions (`instructions`).
"""

from __future__ import annotations

DECLARATIONS = """\
struct ushort2 { unsigned short x, y; };
struct ushort4 { unsigned short x, y, z, w; };
#define __align__(n) __attribute__((aligned(n)))
#define __maxnreg__(n)
template <typename T> __device__ T __ldcs(const T *);
template <typename T> __device__ T __ldcg(const T *);
template <typename T> __device__ void __stcs(T *, T);
template <typename T> __device__ void __stcg(T *, T);
extern "C" __device__ void __pipeline_memcpy_async(void *, const void *, size_t);
extern "C" __device__ void __pipeline_commit();
extern "C" __device__ void __pipeline_wait_prior(int);
extern "C" __device__ int __ffs(int);
extern "C" __device__ int __popc(unsigned int);
extern "C" __device__ unsigned int __float_as_uint(float);
extern "C" __device__ float __uint_as_float(unsigned int);
extern "C" __device__ int __all_sync(unsigned int, int);
template <typename T> __device__ unsigned int __match_any_sync(unsigned int, T);
"""
LINES = DECLARATIONS.count("\n")
"""Lines before the first of the text."""
HOST = """\
enum cudaError_t { cudaSuccess = 0, cudaErrorOther = 1 };
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
extern "C" cudaError_t cudaGetLastError();
extern "C" cudaError_t cudaMallocAsync(void **, size_t, cudaStream_t);
extern "C" cudaError_t cudaFreeAsync(void *, cudaStream_t);
template <typename T> cudaError_t cudaFuncSetAttribute(T *, cudaFuncAttribute, int);
"""
"""What a host function uses besides."""
HOST_LINES = LINES + HOST.count("\n")
