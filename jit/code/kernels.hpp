// Compiles the kernels of codes, in units. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/code/code.hpp"

namespace heddle::jit {

/// The largest number of nodes (schedule/cut.hpp) in a kernel and in a unit: larger kernels are
/// cut, and kernels with more nodes together are compiled in separate units. The time of compilers
/// grows faster than the size of functions, and several compilers may run at once. The limit is the
/// same on all machines, because it decides the compiled text. Measured (docs/performance.md): a
/// limit of 6,000 doubles the time of elementwise loops; a limit of 1,000 takes about two thirds of
/// the time, saves none on products, and gives twice as many kernels to load and to call.
inline constexpr std::size_t kernel_nodes_max = 2'000;

/// A scheduled code and its steps; compile_kernels() gives the kernels their units.
struct Uncompiled {
  const CodeData* code;
  std::vector<Step>* steps;
};

/// The kernels of several codes, in units that are compiled separately.
struct KernelUnits {
  std::vector<CompileUnit> units;
  /// The place of each step's kernel; steps in order, code after code.
  struct Place {
    std::size_t unit, index;
  };
  std::vector<Place> places;
};
/// Equal kernels appear once. Units are named after `name`. `addresses`: one per signature entry,
/// embedded in the code; empty: no embedded addresses.
[[nodiscard]] KernelUnits units_of(std::span<const Uncompiled> codes, const std::string& name,
                                   std::span<const std::optional<std::uint64_t>> addresses);
/// Compiles the kernels of `codes`, by several threads where `spread` provides threads. Throws the
/// error of the first unit, in order, that failed.
void compile_kernels(std::span<const Uncompiled> codes, const std::string& name,
                     std::span<const std::optional<std::uint64_t>> addresses,
                     const CompileLimits& limits, const Spread& spread);

}  // namespace heddle::jit
