// A matrix product: describe it, compile it, link it on a device, run it, read the result.
#include <heddle/heddle.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

using namespace heddle;

int main() try {
  auto backend = Backend::open();  // HEDDLE_BACKEND, else the best one built in
  auto device = backend.physical_device(0).new_virtual_device();

  Tensor a("a", f32, {64, 128}), b("b", f32, {128, 32}), c("c", f32, {64, 32});
  Index i, j, k;
  Program mm("mm");
  mm << (c(i, j) += a(i, k) * b(k, j));  // k is missing on the left: summed

  Routine run = Context(device).link(backend.compile(mm));
  std::vector<float> a_values(64 * 128), b_values(128 * 32, 0.5F);
  std::iota(a_values.begin(), a_values.end(), 0.0F);
  run.context().write(a, a_values);  // waits only for what it touches
  run.context().write(b, b_values);
  run.schedule();  // returns an Event
  std::vector<float> out = run.context().read<float>(c);

  std::printf("c = %s\n", render_array(c.type(), out.data()).c_str());
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
