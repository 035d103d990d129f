#include "add2.h"
#include "host_stream.h"

namespace {

void add2_kernel(float* c, const float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}

}  // namespace

void launch_add2(float* c, const float* a, const float* b, int64_t n, void* stream) {
  if (n <= 0) return;
  static_cast<cudabench::HostStream*>(stream)->launch(
      [=] { add2_kernel(c, a, b, n); });
}
