// torch.ops.<extension name>.torch_launch_add2(c, a, b, n): add2 on PyTorch's current stream.
// torch.ops.<extension name>.torch_launch_add2_default_stream: the same on CUDA's default stream,
// as the article's launcher did it; only where add2.cu is built in.
// torch.ops.<extension name>.torch_launch_stamp(stamps, ns): a stamp (stamp.h) on the current stream.
//
// Built against PyTorch's stable ABI: on one machine torch/extension.h took 49 s to compile,
// these headers 2.0 s.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <stdexcept>
#include <string>

#include "add2.h"
#include "stamp.h"
#ifndef USE_CUDA  // given by _build.py where add2.cu is built in; it opens the shim's CUDA part
#include "host_stream.h"
#endif

namespace {

using torch::stable::Tensor;

#ifdef USE_CUDA

constexpr const char* kDevice = "one CUDA device";

bool on_device(const Tensor& tensor) { return tensor.is_cuda(); }

void* current_stream(const Tensor& tensor) {
// Before 2.13 the macro is undefined, and an undefined macro would compare as 0.
#if defined(TORCH_VERSION_2_13_0) && TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
  return torch::stable::accelerator::getCurrentStream(tensor.get_device_index()).nativeHandle();
#else
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
  return stream;
#endif
}

void launch_on(void* stream, const Tensor& c, const Tensor& a, const Tensor& b, int64_t n) {
  const torch::stable::accelerator::DeviceGuard guard(c.get_device_index());
  launch_add2(c.mutable_data_ptr<float>(), a.const_data_ptr<float>(), b.const_data_ptr<float>(), n,
              stream);
}

void launch(const Tensor& c, const Tensor& a, const Tensor& b, int64_t n) {
  launch_on(current_stream(c), c, a, b, n);
}

void stamp(const Tensor& stamps, int64_t ns) {
  const torch::stable::accelerator::DeviceGuard guard(stamps.get_device_index());
  launch_stamp(stamps.mutable_data_ptr<int64_t>(), ns, current_stream(stamps));
}

#else

constexpr const char* kDevice = "the CPU";

bool on_device(const Tensor& tensor) { return tensor.is_cpu(); }

void launch(const Tensor& c, const Tensor& a, const Tensor& b, int64_t n) {
  cudabench::HostStream& stream = cudabench::current_host_stream();
  launch_add2(c.mutable_data_ptr<float>(), a.const_data_ptr<float>(), b.const_data_ptr<float>(), n,
              &stream);
  // PyTorch's CUDA allocator frees in stream order, its CPU allocator at once: the tensors are
  // held until the worker is past them.
  stream.enqueue([c, a, b] {});
}

void stamp(const Tensor& stamps, int64_t ns) {
  cudabench::HostStream& stream = cudabench::current_host_stream();
  launch_stamp(stamps.mutable_data_ptr<int64_t>(), ns, &stream);
  stream.enqueue([stamps] {});
}

#endif

std::string device_name(const Tensor& tensor) {
  if (tensor.is_cpu()) return "cpu";
  if (tensor.is_cuda()) return "cuda:" + std::to_string(tensor.get_device_index());
  return "neither cpu nor cuda";
}

// Built from strings, not with a stream: a compiler that links its own libstdc++ into the
// library gives a process two sets of stream locales, and formatting a number with one crashed.
std::string described(const std::string& name, const Tensor& tensor) {
  if (!tensor.defined()) return name + ": undefined";
  std::string text = name + ": shape [";
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    text += (i ? ", " : "") + std::to_string(tensor.size(i));
  }
  text += std::string("], ") + torch::headeronly::toString(tensor.scalar_type()) + ", " +
          device_name(tensor);
  return tensor.is_contiguous() ? text : text + ", not contiguous";
}

// `other` settles which of several devices.
bool usable(const Tensor& tensor, const Tensor& other, int64_t n) {
  return tensor.scalar_type() == torch::headeronly::ScalarType::Float &&
         on_device(tensor) && tensor.get_device_index() == other.get_device_index() &&
         tensor.is_contiguous() && tensor.numel() >= n;
}

void check(const Tensor& c, const Tensor& a, const Tensor& b, int64_t n) {
  const bool defined = c.defined() && a.defined() && b.defined();
  if (n < 0 || !defined || !usable(c, c, n) || !usable(a, c, n) || !usable(b, c, n)) {
    throw std::invalid_argument(
        std::string("torch_launch_add2 needs contiguous float32 tensors of at least n elements, "
                    "all on ") +
        kDevice + ", and n >= 0; got n = " + std::to_string(n) + "; " + described("c", c) + "; " +
        described("a", a) + "; " + described("b", b));
  }
}

void torch_launch_add2(const Tensor& c, const Tensor& a, const Tensor& b, int64_t n) {
  check(c, a, b, n);
  if (n > 0) launch(c, a, b, n);
}

#ifdef USE_CUDA
void torch_launch_add2_default_stream(const Tensor& c, const Tensor& a, const Tensor& b,
                                      int64_t n) {
  check(c, a, b, n);
  if (n > 0) launch_on(nullptr, c, a, b, n);
}
#endif

void torch_launch_stamp(const Tensor& stamps, int64_t ns) {
  if (!stamps.defined() || stamps.scalar_type() != torch::headeronly::ScalarType::Long ||
      !on_device(stamps) || !stamps.is_contiguous() || stamps.numel() < 2) {
    throw std::invalid_argument(
        std::string("torch_launch_stamp needs a contiguous int64 tensor of two elements on ") +
        kDevice + "; got " + described("stamps", stamps));
  }
  stamp(stamps, ns);
}

}  // namespace

// The FRAGMENT form expands TORCH_EXTENSION_NAME; the plain form would paste the macro's name.
STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {
  m.def("torch_launch_add2(Tensor(a!) c, Tensor a, Tensor b, int n) -> ()");
#ifdef USE_CUDA
  m.def("torch_launch_add2_default_stream(Tensor(a!) c, Tensor a, Tensor b, int n) -> ()");
#endif
  m.def("torch_launch_stamp(Tensor(a!) stamps, int ns) -> ()");
}

// For every device, so that a tensor on the wrong one meets the check above.
STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, m) {
  m.impl("torch_launch_add2", TORCH_BOX(&torch_launch_add2));
#ifdef USE_CUDA
  m.impl("torch_launch_add2_default_stream", TORCH_BOX(&torch_launch_add2_default_stream));
#endif
  m.impl("torch_launch_stamp", TORCH_BOX(&torch_launch_stamp));
}
