#include <algorithm>
#include <stdexcept>
#include <string>

#include "add2.h"

namespace {

constexpr int64_t kBlockThreads = 1024;
// The hardware's limit on gridDim.x since compute capability 3.0. Beyond it the grid-stride
// loop gives each thread more than one element.
constexpr int64_t kMaxBlocks = 2147483647;

}  // namespace

// The article's kernel, with 64-bit indices. Outside the namespace, so that a profiler shows
// its plain name.
__global__ void add2_kernel(float* c, const float* a, const float* b, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    c[i] = a[i] + b[i];
  }
}

void launch_add2(float* c, const float* a, const float* b, int64_t n, void* stream) {
  if (n <= 0) return;  // a grid of no blocks is an invalid configuration
  // (n + 1023) / 1024 blocks, written so that no n overflows.
  const int64_t blocks = std::min((n - 1) / kBlockThreads + 1, kMaxBlocks);
  add2_kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(kBlockThreads), 0,
                static_cast<cudaStream_t>(stream)>>>(c, a, b, n);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("add2 was not launched: ") + cudaGetErrorString(error) +
                             " (n = " + std::to_string(n) + ")");
  }
}
