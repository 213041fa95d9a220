// See spares.hpp.
#include "runtime/spares.hpp"

#include "runtime/submit.hpp"

namespace heddle::rt {

void Spares::give(Operation& spare) noexcept { given_.push(spare); }

Operation* Spares::take() noexcept {
  if (ours_ == nullptr) ours_ = given_.take_all();
  Operation* const spare = ours_;
  if (spare != nullptr) ours_ = spare->next;
  return spare;
}

Spares::~Spares() {
  while (Operation* const spare = take()) delete spare;
}

}  // namespace heddle::rt
