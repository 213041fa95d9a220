// See rival_openblas.hpp.
#include "tools/bench/rival_openblas.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace heddle::bench {
namespace {

// Of cblas.h; the library has no header here.
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                       float* c, int ldc);
constexpr int row_major = 101;
constexpr int not_transposed = 111;

Sgemm find() {
#if defined(__x86_64__)
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  if (__builtin_cpu_supports("avx512f") != 0) setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
#endif
  setenv("OPENBLAS_NUM_THREADS", "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

Sgemm sgemm() {
  static const Sgemm found = find();
  return found;
}

void multiply(const KernelSetup& made) {
  const int n = static_cast<int>(made.tensors[0].dims()[0]);
  sgemm()(row_major, not_transposed, not_transposed, n, n, n, 1, made.data(0), n, made.data(1), n,
          0, made.data(2), n);
}

}  // namespace

std::optional<Alternative> openblas() {
  if (sgemm() == nullptr) return std::nullopt;
  return in_process("OpenBLAS", Kind::rival, multiply);
}

}  // namespace heddle::bench
