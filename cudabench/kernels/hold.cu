// What the measuring itself queues: the hold, the mark, the stamp, and the reading of the clock.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "stamp.h"

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

// Shows in a profile where something begins and ends.
__global__ void mark_kernel() {}

__global__ void stamp_kernel(int64_t* stamps, int64_t ns) {
  const int64_t start = nanoseconds();
  int64_t now = start;
  while (now - start < ns) now = nanoseconds();
  stamps[0] = start;
  stamps[1] = now;
}

// Answers the host's requests 1 to `rounds`, each with the time at which it was seen. mailbox: the
// request, the answer, the time. Gives up where the host is silent for a second.
__global__ void answer_kernel(volatile int64_t* mailbox, int64_t rounds) {
  for (int64_t round = 1; round <= rounds; ++round) {
    const int64_t start = nanoseconds();
    while (mailbox[0] != round) {
      if (nanoseconds() - start > 1000000000) return;
    }
    mailbox[2] = nanoseconds();
    __threadfence_system();
    mailbox[1] = round;
  }
}

void launch_stamp(int64_t* stamps, int64_t ns, void* stream) {
  stamp_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(stamps, ns);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("the stamp was not launched: ") +
                             cudaGetErrorString(error));
  }
}

// flags: two int32 in pinned host memory. Returns the CUDA error of the launch, 0 where it worked.
extern "C" int cudabench_hold(int32_t* flags, int64_t limit_ns, void* stream) {
  hold_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(flags, limit_ns);
  return cudaGetLastError();
}

// Returns as cudabench_hold does.
extern "C" int cudabench_mark(void* stream) {
  mark_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
  return cudaGetLastError();
}

// How far the device's clock is ahead of the host's steady clock, in nanoseconds. As network clocks
// are compared: of many exchanges the quickest counts, and the device's reading lies between its two
// ends. mailbox: three int64 in pinned host memory, zero. Returns as cudabench_hold does, or -1 where
// the device did not answer.
extern "C" int cudabench_clock_offset(int64_t* mailbox, int64_t* offset, void* stream) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kRounds = 200;
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
        .count();
  };
  answer_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(mailbox, kRounds);
  const cudaError_t launched = cudaGetLastError();
  if (launched != cudaSuccess) return launched;
  auto* request = reinterpret_cast<std::atomic<int64_t>*>(mailbox);
  auto* answer = request + 1;
  int64_t quickest = INT64_MAX;
  for (int64_t round = 1; round <= kRounds; ++round) {
    const int64_t asked = now();
    request->store(round);
    while (answer->load() != round) {
      if (now() - asked > 1000000000) return -1;
    }
    const int64_t answered = now();
    if (answered - asked >= quickest) continue;
    quickest = answered - asked;
    *offset = mailbox[2] - (asked + quickest / 2);
  }
  return 0;
}

// How many nodes a cudaGraph_t has, or -1 where that cannot be told.
extern "C" int64_t cudabench_graph_nodes(void* graph) {
  std::size_t count = 0;
  const cudaError_t error = cudaGraphGetNodes(static_cast<cudaGraph_t>(graph), nullptr, &count);
  return error == cudaSuccess ? static_cast<int64_t>(count) : -1;
}
