#include <algorithm>
#include <stdexcept>
#include <string>

#include "add2.h"

// The article's kernel. Outside a namespace, so that a profiler shows its name plainly.
//
// Index is 32 bits wide where n allows it: on an H200, 64-bit index arithmetic made this kernel
// 24 % slower at n = 2^24 (89.2 us against 72.1) and 41 % at n = 2^20 (6.2 against 4.4), printed by
// benchmarks/index_width.cu.
template <typename Index>
__global__ void add2_kernel(float* c, const float* a, const float* b, Index n) {
  const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    c[i] = a[i] + b[i];
  }
}

namespace {

constexpr int64_t kBlockThreads = 1024;
// The hardware's limit on gridDim.x since compute capability 3.0. Beyond it the grid-stride
// loop gives each thread more than one element.
constexpr int64_t kMaxBlocks = 2147483647;
// Up to here i + stride, at most n + (n + 1023), stays within 32 bits.
constexpr int64_t kMaxNarrow = 2147483647 - 1023;

template <typename Index>
void launch(float* c, const float* a, const float* b, int64_t n, cudaStream_t stream) {
  // (n + 1023) / 1024 blocks, written so that no n overflows.
  const int64_t blocks = std::min((n - 1) / kBlockThreads + 1, kMaxBlocks);
  add2_kernel<Index><<<static_cast<unsigned>(blocks), static_cast<unsigned>(kBlockThreads), 0,
                       stream>>>(c, a, b, static_cast<Index>(n));
}

}  // namespace

void launch_add2(float* c, const float* a, const float* b, int64_t n, void* stream) {
  if (n <= 0) return;  // a grid of no blocks is an invalid configuration
  (n <= kMaxNarrow ? launch<uint32_t> : launch<int64_t>)(c, a, b, n,
                                                         static_cast<cudaStream_t>(stream));
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("add2 was not launched: ") + cudaGetErrorString(error) +
                             " (n = " + std::to_string(n) + ")");
  }
}
