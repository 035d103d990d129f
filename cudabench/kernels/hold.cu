#include <cstdint>

namespace {

__device__ int64_t nanoseconds() {
  int64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

}  // namespace

// Keeps the stream from what is queued behind it until the host sets flags[0]. It gives up after
// limit_ns, and sets flags[1] then: what is queued may itself be waiting for the stream.
__global__ void hold_kernel(volatile int32_t* flags, int64_t limit_ns) {
  const int64_t start = nanoseconds();
  while (flags[0] == 0) {
    if (nanoseconds() - start > limit_ns) {
      flags[1] = 1;
      return;
    }
  }
}

// Keeps the stream busy for a number of the multiprocessor's clock cycles.
__global__ void pause_kernel(int64_t cycles) {
  const int64_t start = clock64();
  while (clock64() - start < cycles) {
  }
}

// flags: two int32 in pinned host memory. Returns the CUDA error of the launch, 0 where it worked.
extern "C" int cudabench_hold(int32_t* flags, int64_t limit_ns, void* stream) {
  hold_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(flags, limit_ns);
  return cudaGetLastError();
}

// Returns as cudabench_hold does.
extern "C" int cudabench_pause(int64_t cycles, void* stream) {
  pause_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(cycles);
  return cudaGetLastError();
}
