// The programs of the golden files: one or more for each kind of statement. Any thread.
#pragma once

#include <ostream>
#include <span>

#include "heddle/program.hpp"

namespace heddle::jit {

struct Golden {
  const char* name;
  Program (*describe)();
  friend void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }
};

[[nodiscard]] std::span<const Golden> golden_programs();

}  // namespace heddle::jit
