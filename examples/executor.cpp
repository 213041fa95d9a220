// The first program with an executor: a function of arrays, called with arrays.
#include <heddle/heddle.hpp>

#include <cstdio>
#include <vector>

using namespace heddle;

int main() try {
  auto backend = Backend::open();
  auto device = backend.physical_device(0).new_virtual_device();

  // Compiled at the first call with arguments of these types; later calls only run it.
  Executor classify(device, [](Node x, Node w, Node b) {
    return softmax(relu(matmul(x, w) + b));  // shapes broadcast as in NumPy
  });
  Array w(device, {3, 4}, std::vector<float>(12, 0.5F));
  Array b(device, std::vector<float>{0, 1, 2, 3});
  Array shares = classify(std::vector<float>{1, 2, 3}, w, b);  // returns at once

  std::vector<float> values = shares.values<float>();  // waits
  std::printf("shares = %s\n", render_array(shares.type(), values.data()).c_str());
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
