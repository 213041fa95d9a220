// Compiling the kernels of codes, in units. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/code/code.hpp"

namespace heddle::jit {

/// A program whose kernel has more nodes (schedule/cut.hpp) is cut into several, and kernels with
/// more together are compiled apart: compilers take longer than in proportion over large functions,
/// and several may work at once. The same everywhere, as it decides what is compiled. Measured
/// (docs/performance.md): at 6,000 elementwise loops took twice the time; at 1,000 they take some
/// two thirds, products no less, and there are twice as many kernels to load and to call.
inline constexpr std::size_t kernel_nodes_max = 2'000;

/// A code that is scheduled, and its steps: compiling gives their kernels units.
struct Uncompiled {
  const CodeData* code;
  std::vector<Step>* steps;
};

/// Kernels of several codes, in units that are compiled apart.
struct KernelUnits {
  std::vector<CompileUnit> units;
  /// Where the kernel of each step is, those of all codes one after the other.
  struct Place {
    std::size_t unit, index;
  };
  std::vector<Place> places;
};
/// Equal ones once. The units are called after `name`. `addresses`: one per signature entry,
/// embedded; empty: none is.
[[nodiscard]] KernelUnits units_of(std::span<const Uncompiled> codes, const std::string& name,
                                   std::span<const std::optional<std::uint64_t>> addresses);
/// Compiles those, by several threads where `spread` has them. Throws the error of the first unit
/// that failed, in order.
void compile_kernels(std::span<const Uncompiled> codes, const std::string& name,
                     std::span<const std::optional<std::uint64_t>> addresses,
                     const CompileLimits& limits, const Spread& spread);

}  // namespace heddle::jit
