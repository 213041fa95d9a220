// What a host's floating operations are like is nothing to kernels and compiles.
#include <immintrin.h>

#include <limits>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;

/// A host that rounds up, takes what is tiny for zero and flushes it.
class UnusualHost {
 public:
  UnusualHost() : before_(_mm_getcsr()) { _mm_setcsr(unusual); }
  ~UnusualHost() { _mm_setcsr(before_); }
  UnusualHost(const UnusualHost&) = delete;
  UnusualHost& operator=(const UnusualHost&) = delete;
  [[nodiscard]] static bool is_as_before() { return (_mm_getcsr() & ~0x3fU) == unusual; }

 private:
  static constexpr unsigned unusual = 0x1f80 | _MM_ROUND_UP | 0x8040;
  const unsigned before_;
};

/// Others have arithmetic of their own.
std::vector<std::string> cpu_rows_under_test() {
  std::vector<std::string> names = backends_under_test();
  std::erase_if(names, [](const std::string& name) { return !is_cpu_row(name); });
  return names;
}

class FloatingTest : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FloatingTest);
INSTANTIATE_TEST_SUITE_P(Backends, FloatingTest, testing::ValuesIn(cpu_rows_under_test()),
                         [](const auto& backend) { return backend.param; });

// J3, D10: threads of a backend that such a host opens compute as all others do, as does the host
// itself where tasks run on it; what a compiler folds is the same; the host stays as it is
TEST_P(FloatingTest, IsNotTheHosts) {
  const float tiny = std::numeric_limits<float>::min();
  const std::vector<float> values{tiny, 5.0F};
  const UnusualHost host;
  const Backend backend = Backend::open(GetParam());
  const Tensor x("x", f32, {2}), halves("halves", f32, {2}), thirds("thirds", f32, {2}),
      folded("folded", f32, {2});
  Index i;
  Program program("floating");
  program << (halves(i) = x(i) * 0.5F) << (thirds(i) = x(i) / 3.0F)
          << (folded(i) = Expr(5.0F) / Expr(3.0F));
  const Routine run =
      Context(backend.physical_device(0).new_virtual_device()).link(backend.compile(program));
  run.context().write(x, values);
  run.schedule();
  EXPECT_THAT(run.context().read<float>(halves), ElementsAre(0x1p-127F, 2.5F));
  for (const Tensor& third : {thirds, folded})
    EXPECT_EQ(run.context().read<float>(third)[1], 0x1.aaaaaap0F) << third.label();
  EXPECT_TRUE(UnusualHost::is_as_before());
}

}  // namespace
}  // namespace heddle
