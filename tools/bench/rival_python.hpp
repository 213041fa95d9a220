// Array frameworks on the CPU, each in its own Python process with the same data: rivals of the
// kernel rows, and of training. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/compiled_kernel.hpp"

namespace heddle::bench {

/// A framework that heddle-bench has programs for.
struct Framework {
  const char* name;
  const char* module;            ///< the module's name in Python, and heddle-bench's option
  const char* script;            ///< beside this file
  bool has_kernels;              ///< else the script has the written models alone
  std::filesystem::path python;  ///< the Python with the framework; empty: no rows
  std::string version;           ///< "torch 2.9.1"; empty until a row was prepared
};

/// All frameworks. Their Pythons are set before the rows are made.
[[nodiscard]] std::span<Framework> frameworks();
/// An alternative for each framework that has a Python. Programs that a framework cannot express,
/// and Pythons without the framework, throw `unavailable` when prepared. `threads`: number of
/// threads, and of processors. One process serves all rows of an alternative, one after another.
/// `written`: also those that have the written models alone; without a Python of their own, that of
/// another framework serves.
[[nodiscard]] std::vector<Alternative> framework_alternatives(int threads = 1,
                                                              bool written = false);

/// A framework's version of a program as the other side of a row, started by its first slice.
/// `ours` is heddle's result for the same arrays: throws internal when both differ by more than
/// rounding.
[[nodiscard]] Contender framework_contender(
    const Alternative& framework, std::function<KernelSetup()> make,
    std::function<std::vector<float>(const KernelSetup&)> ours);

}  // namespace heddle::bench
