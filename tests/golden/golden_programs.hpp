// The programs of the golden files: one or more for each kind of statement. Any thread.
#pragma once

#include <span>

#include "heddle/program.hpp"

namespace heddle::jit {

struct Golden {
  const char* name;
  Program (*describe)();
};

[[nodiscard]] std::span<const Golden> golden_programs();

}  // namespace heddle::jit
