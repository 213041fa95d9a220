// Array frameworks on the CPU, each in a Python process of its own with the same data: rivals of
// the kernel rows, and of training. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/compiled_kernel.hpp"

namespace heddle::bench {

/// One that heddle-bench has programs for.
struct Framework {
  const char* name;
  const char* module;            ///< as Python imports it, and heddle-bench's option
  const char* script;            ///< beside this file
  std::filesystem::path python;  ///< which has it; empty: no rows
  std::string version;           ///< "torch 2.9.1"; empty until a row was prepared
};

/// All of them. Set where they are before the rows are made.
[[nodiscard]] std::span<Framework> frameworks();
/// One for each framework that has a Python. Programs that one has no words for, and pythons
/// without it, are `unavailable` when they are prepared. `threads`: that it computes with, on as
/// many processors. One process for all rows that an alternative is used for, one after another.
[[nodiscard]] std::vector<Alternative> framework_alternatives(int threads = 1);

/// What a framework makes of a program as the other side of a row, started by its first slice.
/// `ours` is what heddle makes of the same arrays: throws internal when the two differ by more than
/// rounding.
[[nodiscard]] Contender framework_contender(
    const Alternative& framework, std::function<KernelSetup()> make,
    std::function<std::vector<float>(const KernelSetup&)> ours);

}  // namespace heddle::bench
