// What 64-bit index arithmetic costs the article's kernel.
//
//   nvcc -arch=native -O3 benchmarks/index_width.cu -o /tmp/index_width && /tmp/index_width
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

template <typename Index>
__global__ void add2_kernel(float* c, const float* a, const float* b, Index n) {
  const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    c[i] = a[i] + b[i];
  }
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

// Microseconds a launch: the median over 15 batches of 20 launches.
template <typename Index>
double microseconds(float* c, const float* a, const float* b, Index n) {
  constexpr int kBatch = 20;
  cudaEvent_t start, end;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&end));
  std::vector<float> times(15);
  for (float& time : times) {
    check(cudaEventRecord(start));
    for (int i = 0; i < kBatch; ++i) {
      add2_kernel<Index><<<static_cast<unsigned>((n + 1023) / 1024), 1024>>>(c, a, b, n);
    }
    check(cudaGetLastError());
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&time, start, end));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1e3 / kBatch;
}

}  // namespace

int main() {
  for (const int64_t n : {int64_t{1} << 20, int64_t{1} << 24, int64_t{1} << 26}) {
    float *a, *b, *c;
    for (float** buffer : {&a, &b, &c}) {
      check(cudaMalloc(buffer, n * sizeof(float)));
      check(cudaMemset(*buffer, 1, n * sizeof(float)));
    }
    microseconds<uint32_t>(c, a, b, static_cast<uint32_t>(n));  // warm-up
    const double narrow = microseconds<uint32_t>(c, a, b, static_cast<uint32_t>(n));
    const double wide = microseconds<int64_t>(c, a, b, n);
    std::printf("n = %9lld: 32 bits %7.2f us, 64 bits %7.2f us, ratio %.2f\n",
                static_cast<long long>(n), narrow, wide, wide / narrow);
    for (float* buffer : {a, b, c}) check(cudaFree(buffer));
  }
}
