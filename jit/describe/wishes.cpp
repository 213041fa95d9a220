// See describe/wishes.hpp.
#include "jit/describe/wishes.hpp"

#include <mutex>

#include "jit/describe/tensor.hpp"
#include "jit/system/inside.hpp"

namespace heddle::jit {

Wish wish_of(const Tensor& tensor) {
  const TensorState& state = *Inside::of(tensor);
  const std::lock_guard lock(wishes_mutex);
  return {state.mode, state.provenance, state.host};
}

std::vector<Wish> wishes_of(const Program& program) {
  std::vector<Wish> wishes;
  for (const Tensor& tensor : program.tensors()) wishes.push_back(wish_of(tensor));
  return wishes;
}

}  // namespace heddle::jit
