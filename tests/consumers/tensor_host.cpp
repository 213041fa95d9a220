// A host that describes, compiles and runs a matrix product with the backend in argv[1]. Built
// outside the tree against the installed library; exits with 1 when a number is wrong.
#include <heddle/heddle.hpp>

#include <cstdio>
#include <exception>

using namespace heddle;

namespace {

bool correct(const std::vector<float>& x, const std::vector<float>& y,
             const std::vector<float>& out) {
  for (std::size_t r = 0; r < 64; ++r) {
    for (std::size_t s = 0; s < 32; ++s) {
      float sum = 0;  // small integers: exact in any order
      for (std::size_t t = 0; t < 128; ++t) sum += x[r * 128 + t] * y[t * 32 + s];
      if (out[r * 32 + s] == sum) continue;
      std::fprintf(stderr, "tensor_host: c(%zu, %zu) is %g (expected %g)\n", r, s,
                   static_cast<double>(out[r * 32 + s]), static_cast<double>(sum));
      return false;
    }
  }
  return true;
}

int run_product(const char* backend_name) {
  auto backend = Backend::open(backend_name);
  auto device = backend.physical_device(0).new_virtual_device();

  Tensor a("a", f32, {64, 128}), b("b", f32, {128, 32}), c("c", f32, {64, 32});
  Index i, j, k;
  Program mm("mm");
  mm << (c(i, j) += a(i, k) * b(k, j));

  std::vector<float> a_values(64 * 128), b_values(128 * 32);
  for (std::size_t n = 0; n < a_values.size(); ++n) a_values[n] = static_cast<float>(n % 7);
  for (std::size_t n = 0; n < b_values.size(); ++n) b_values[n] = static_cast<float>(n % 5) - 2;

  Routine run = Context(device).link(backend.compile(mm));
  run.context().write(a, a_values);
  run.context().write(b, b_values);
  run.schedule();
  std::vector<float> out = run.context().read<float>(c);
  if (!correct(a_values, b_values, out)) return 1;
  std::printf("tensor_host: ok on %s\n", device.name().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_product(argc > 1 ? argv[1] : "gccjit");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tensor_host: %s\n", e.what());
    return 1;
  }
}
