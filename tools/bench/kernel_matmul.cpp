// c = a b, square: how well the schedule of a contraction uses registers and caches. Both
// alternatives that know the processor are there: its peak, and a library written by hand.
#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/cases.hpp"
#include "tools/bench/kernel_products.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/plain_kernels.hpp"
#include "tools/bench/rival_openblas.hpp"

namespace heddle::bench {
namespace {

KernelSetup setup(std::int64_t n) {
  KernelSetup made{Program("matmul"), {}, {}};
  const Tensor a = made.add("a", {n, n}), b = made.add("b", {n, n}), c = made.add("c", {n, n});
  const Index i, j, k;
  made.program << (c(i, j) = sum(a(i, k) * b(k, j)));
  return made;
}

void plain(const KernelSetup& made) {
  plain_matmul(static_cast<std::size_t>(made.tensors[0].dims()[0]), made.data(0), made.data(1),
               made.data(2));
}

template <void (*run)(std::size_t)>
Alternative multiply_adds(const char* name, std::size_t rounds) {
  const auto prepare = [rounds](const KernelSetup&) {
    return Prepared{[rounds](std::size_t count) {
      const auto start = Clock::now();
      run(rounds * count);
      return ns_between(start, Clock::now()) / static_cast<double>(count);
    }};
  };
  return {name, Kind::limit, prepare, false};
}

}  // namespace

std::vector<Alternative> multiply_add_limits(std::int64_t count) {
  if (!limits_are_written()) return {};
  const std::size_t rounds = static_cast<std::size_t>(count) / limit_multiply_adds_per_round;
  return {multiply_adds<limit_multiply_adds>("multiply-add peak", rounds),
          multiply_adds<limit_multiply_adds_from_cache>("multiply-adds from L1", rounds)};
}

std::size_t calls_for(std::int64_t multiply_adds) {
  return static_cast<std::size_t>((std::int64_t{4} << 20) / multiply_adds + 1);
}

void add_matmul_rows(std::vector<Row>& rows) {
  for (const int n : {16, 32, 64, 128, 256, 512, 1024, 2048}) {
    const std::int64_t count = std::int64_t{n} * n * n;
    std::vector<Alternative> others = multiply_add_limits(count);
    if (const auto blas = openblas({n, n, n})) others.push_back(*blas);
    // The naive nest takes seconds where sizes grow.
    if (n == 128 || n == 512) others.push_back(in_process("plain C++ loop", Kind::rival, plain));
    add_kernel_rows(rows, {"matmul", fmt::format("matmul {0}x{0}", n), calls_for(count),
                           [n] { return setup(n); }, others});
  }
}

}  // namespace heddle::bench
