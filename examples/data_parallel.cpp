// Two devices sum one half of the numbers each; the second half-sum reaches the first device
// through its merge buffer. The devices wait for each other; the host waits once, at the end.
#include <heddle/heddle.hpp>

#include <cstdio>
#include <vector>

using namespace heddle;

int main() try {
  auto backend = Backend::open();
  auto core = backend.physical_device(0);
  Device first = core.new_virtual_device(), second = core.new_virtual_device();

  Tensor numbers("numbers", HostArray::range({f32, {2000}}), MemoryMode::hosted_constant);
  Tensor total("total", f32, {});
  total.set_mode(MemoryMode::on_device);  // outlives the routine that writes it

  StaticIndex half("half", 2);  // bound when the routine is scheduled
  Index n(1000);
  Program add_half("add_half"), join("join");
  add_half << (total() = sum(numbers(1000 * half + n)));
  join << (total() += merge(total)());

  Code code = backend.compile(add_half);  // compiled once, linked on both devices
  Routine on_first = Context(first).link(code);
  Routine on_second = Context(second).link(code);
  Routine join_on_first = on_first.context().link(backend.compile(join));

  on_first.schedule({{half, 0}});
  Event ready = on_second.schedule({{half, 1}});
  merge(join_on_first, on_second.context(), MergeMode::stream, {}, {.after = {ready}});

  std::printf("0 + 1 + ... + 1999 = %.0f\n", join_on_first.context().read<float>(total)[0]);
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
