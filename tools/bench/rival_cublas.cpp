// See rival_cublas.hpp.
#include "tools/bench/rival_cublas.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "heddle/status.hpp"

namespace heddle::bench {
namespace {

// As in cublas_v2.h. A function returns a cublasStatus_t, which is 0 on success.
struct CublasFunctions {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*set_stream)(void* handle, dev::cuda::Stream stream) = nullptr;
  int (*set_math_mode)(void* handle, int mode) = nullptr;
  int (*sgemm)(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
               const float* alpha, const float* a, int lda, const float* b, int ldb,
               const float* beta, float* c, int ldc) = nullptr;
};
constexpr int default_math = 0;  // f32 products without TF32
constexpr int as_it_is = 0;      // CUBLAS_OP_N

CublasFunctions find_cublas() {
  for (const char* const name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                 "/usr/local/cuda/lib64/libcublas.so"}) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    CublasFunctions found;
    const auto find = [&](auto& function, const char* symbol) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
      return function != nullptr;
    };
    if (find(found.create, "cublasCreate_v2") && find(found.destroy, "cublasDestroy_v2") &&
        find(found.set_stream, "cublasSetStream_v2") &&
        find(found.set_math_mode, "cublasSetMathMode") && find(found.sgemm, "cublasSgemm_v2"))
      return found;
  }
  return {};
}

const CublasFunctions& cublas() {
  static const CublasFunctions found = find_cublas();
  return found;
}

void require_cublas(int result, const char* function) {
  if (result != 0)
    throw Error(ErrorCode::unavailable, fmt::format("{} answered {}", function, result));
}

}  // namespace

Cublas::Cublas(const BareGpu& gpu) : gpu_(gpu) {
  if (cublas().sgemm == nullptr) throw Error(ErrorCode::unavailable, "there is no libcublas.so");
  const dev::cuda::Gpu::Current current(*gpu_.gpu());
  require_cublas(cublas().create(&handle_), "cublasCreate");
  require_cublas(cublas().set_stream(handle_, gpu_.stream()), "cublasSetStream");
  require_cublas(cublas().set_math_mode(handle_, default_math), "cublasSetMathMode");
}

Cublas::~Cublas() {
  const dev::cuda::Gpu::Current current(*gpu_.gpu());
  if (handle_ != nullptr) static_cast<void>(cublas().destroy(handle_));
}

void Cublas::multiply(int n, const BareMemory& a, const BareMemory& b, const BareMemory& c) const {
  const float one = 1, zero = 0;
  const auto floats = [](const BareMemory& memory) { return static_cast<float*>(memory.data()); };
  // cuBLAS is column-major: the transposed product is the product of the transposed matrices.
  require_cublas(cublas().sgemm(handle_, as_it_is, as_it_is, n, n, n, &one, floats(b), n, floats(a),
                                n, &zero, floats(c), n),
                 "cublasSgemm");
}

}  // namespace heddle::bench
