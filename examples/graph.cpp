// A function of arrays, written as a graph: traced once, then a program like any other.
#include <heddle/heddle.hpp>

#include <cstdio>
#include <vector>

using namespace heddle;

int main() try {
  const auto classify = [](const Node& x, const Node& w, const Node& b) {
    return softmax(relu(matmul(x, w) + b));  // shapes broadcast as in NumPy
  };
  const auto traced = trace("classify", classify, ArrayType{f32, {2, 3}}, ArrayType{f32, {3, 4}},
                            ArrayType{f32, {4}});

  const GraphProgram lowered = traced.program();  // and the tensors of what goes in and out
  auto backend = Backend::open();
  auto device = backend.physical_device(0).new_virtual_device();
  Routine run = Context(device).link(backend.compile(lowered.program));
  run.context().write(lowered.parameters[0], std::vector<float>{1, 2, 3, -1, 0, 1});
  run.context().write(lowered.parameters[1], std::vector<float>(12, 0.5F));
  run.context().write(lowered.parameters[2], std::vector<float>{0, 1, 2, 3});
  run.schedule();
  std::vector<float> shares = run.context().read<float>(lowered.results[0]);

  std::printf("%s\n", render_array({f32, {2, 4}}, shares.data()).c_str());
  std::printf("%s", lowered.program.to_string().c_str());
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
