// relu(a * b + c) * d: five streams, nothing to reuse. From L1 it measures the code, from memory
// the machine.
#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/plain_kernels.hpp"

namespace heddle::bench {
namespace {

struct Size {
  const char* place;
  std::int64_t count;  ///< floats per array; five arrays
};
constexpr Size sizes[] = {{"L1 (8 KiB arrays)", 2048},
                          {"L2 (128 KiB arrays)", 32768},
                          {"memory (64 MiB arrays)", 16 << 20}};

KernelSetup setup(std::int64_t count) {
  KernelSetup made{Program("elementwise"), {}, {}};
  const Tensor a = made.add("a", {count}), b = made.add("b", {count}), c = made.add("c", {count}),
               d = made.add("d", {count}), out = made.add("out", {count});
  const Index i;
  made.program << (out(i) = relu(a(i) * b(i) + c(i)) * d(i));
  return made;
}

void plain(const KernelSetup& made) {
  plain_elementwise(static_cast<std::size_t>(made.arrays[0].num_elements()), made.data(0),
                    made.data(1), made.data(2), made.data(3), made.data(4));
}

}  // namespace

void add_elementwise_rows(std::vector<Row>& rows) {
  for (const auto& [place, count] : sizes) {
    const auto calls = static_cast<std::size_t>(std::max<std::int64_t>(1, 200'000 / count));
    for (const std::string& backend : compiling_backends()) {
      rows.push_back(kernel_case(
          "elementwise", fmt::format("relu(ab+c)d, {}", place), backend, calls,
          [n = count] { return setup(n); }, plain));
    }
  }
}

}  // namespace heddle::bench
