#pragma once
#include <cstdint>

// Queues c[i] = a[i] + b[i] for 0 <= i < n on `stream` and returns as soon as it is queued.
//
// c, a, b   n float32 values each, on the stream's device; they must outlive the queued work.
// stream    a cudaStream_t where add2.cu implements this, a cudabench::HostStream* where
//           add2_host.cpp does.
// n <= 0 queues nothing. Throws std::runtime_error where the work cannot be queued.
void launch_add2(float* c, const float* a, const float* b, int64_t n, void* stream);
