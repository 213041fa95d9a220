// See rival_openblas.hpp.
#include "tools/bench/rival_openblas.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "heddle/status.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {
namespace {

// As in cblas.h; the library has no header here.
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                       float* c, int ldc);
constexpr int row_major = 101;
constexpr int not_transposed = 111;
constexpr int transposed = 112;

using SetThreads = void (*)(int count);

struct Library {
  Sgemm sgemm = nullptr;
  SetThreads set_threads = nullptr;
};

Library find() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  if (openblas_core() != nullptr) setenv("OPENBLAS_CORETYPE", openblas_core(), 0);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  // OpenBLAS threads look for work for 2^20 cycles, not 2^26: otherwise they would disturb heddle's
  // slices.
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  return {reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm")),
          reinterpret_cast<SetThreads>(dlsym(library, "openblas_set_num_threads"))};
}

/// Throws unavailable.
const Library& blas() {
  static const Library found = find();
  if (found.sgemm == nullptr || found.set_threads == nullptr)
    throw Error(ErrorCode::unavailable, "there is no libopenblas.so.0: see tools/bench/rivals.txt");
  return found;
}

void multiply(const BlasProduct& p, const float* a, const float* b, float* c) {
  const auto each_a = static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.terms);
  const auto each_b = static_cast<std::size_t>(p.terms) * static_cast<std::size_t>(p.columns);
  const auto each_c = static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.columns);
  const auto order = [](bool is_transposed) { return is_transposed ? transposed : not_transposed; };
  for (int k = 0; k < p.batch; ++k, a += each_a, b += each_b, c += each_c) {
    blas().sgemm(row_major, order(p.transposed_a), order(p.transposed_b), p.rows, p.columns,
                 p.terms, 1, a, p.transposed_a ? p.rows : p.terms, b,
                 p.transposed_b ? p.terms : p.columns, 0, c, p.columns);
  }
}

}  // namespace

const char* openblas_core() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) return "SkylakeX";
#endif
  return nullptr;
}

Alternative openblas(const BlasProduct& product, int threads) {
  const auto prepare = [product, threads](const KernelSetup& made) {
    const Unpinned while_starting;  // OpenBLAS threads inherit the processors of this thread
    blas().set_threads(threads);
    return in_process([product, threads, &made] {
      blas().set_threads(threads);
      multiply(product, made.data(0), made.data(1), made.data(made.arrays.size() - 1));
    });
  };
  return {"OpenBLAS", Kind::rival, prepare};
}

}  // namespace heddle::bench
