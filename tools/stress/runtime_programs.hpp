// Programs of random runs of the tensor runtime, with their results as formulas.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/backend.hpp"
#include "heddle/code.hpp"
#include "heddle/expr.hpp"
#include "heddle/host_array.hpp"
#include "heddle/status.hpp"
#include "heddle/tensor.hpp"

namespace heddle::stress {

/// Elements of each tensor except the small one.
inline constexpr std::size_t num_cells = 4, num_small_cells = 2;

/// Operands of programs: five tensors, of which w is small, and the contents of the merge buffer.
enum class Operand : std::uint8_t { x, y, z, h, w, merged };
inline constexpr std::size_t num_tensors = 5, num_operands = 6;

[[nodiscard]] constexpr std::size_t cells_of(Operand tensor) noexcept {
  return tensor == Operand::w ? num_small_cells : num_cells;
}

/// to[k] = constant + the sum of factors[o] * o[k], for all k, or for one row; an operand smaller
/// than `to` supplies its last element for all larger k. Integers wrap.
struct Formula {
  const char* name;
  Operand to;
  std::array<std::uint64_t, num_operands> factors;  ///< 0: not read
  std::uint64_t constant;
  std::optional<Operand> merges{};  ///< the tensor expected in the merge buffer
  bool one_row = false;             ///< the row of the static index
  bool twice = false;               ///< as two steps, with a host call between them

  [[nodiscard]] bool reads(Operand operand) const noexcept {
    return factors[static_cast<std::size_t>(operand)] != 0;
  }
  [[nodiscard]] bool uses(Operand tensor) const noexcept { return to == tensor || reads(tensor); }
  /// The element of an operand that is read for element k of the target.
  [[nodiscard]] std::size_t read_for(std::size_t k, std::size_t operand) const noexcept {
    const auto o = static_cast<Operand>(operand);
    const std::size_t cells = cells_of(o == Operand::merged ? merges.value() : o);
    return cells < cells_of(to) ? cells - 1 : k;
  }
};

struct RuntimeProgram {
  Formula formula;
  Code code;
};

/// The arguments of a kernel: entry k is operands[k].
struct RuntimeKernel {
  const Formula* formula;
  std::vector<Operand> operands;
};

struct RuntimePrograms {
  std::vector<Tensor> tensors;  ///< by Operand
  HostArray host;               ///< storage of h
  StaticIndex row;
  std::vector<RuntimeProgram> programs;
  /// The number of the kernel with that symbol, which must exist.
  [[nodiscard]] std::size_t kernel(const std::string& symbol) const noexcept;
  std::vector<std::pair<std::string, RuntimeKernel>> kernels;
};

/// `parts`: the number of parts that kernels declare; 0: the compiler's number.
[[nodiscard]] RuntimePrograms make_programs(const Backend& backend, std::uint32_t parts = 0);
/// Shared by all simulations; the first call makes the programs, and must be outside a simulation.
/// Compiled by a compiler without output: a played device (played_device.hpp) computes.
[[nodiscard]] const RuntimePrograms& runtime_programs();
/// Called by the step in the middle of a program of two, on any thread; set by the run.
void set_host_step(std::function<Status()> step);

}  // namespace heddle::stress
