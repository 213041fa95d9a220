// Programs that random runs of the tensor runtime are made of, with what each computes.
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

/// Elements of each tensor, but for the small one.
inline constexpr std::size_t num_cells = 4, num_small_cells = 2;

/// What programs compute with: five tensors, of which w is small, and what the merge buffer holds.
enum class Operand : std::uint8_t { x, y, z, h, w, merged };
inline constexpr std::size_t num_tensors = 5, num_operands = 6;

[[nodiscard]] constexpr std::size_t cells_of(Operand tensor) noexcept {
  return tensor == Operand::w ? num_small_cells : num_cells;
}

/// to[k] = constant + the sum of factors[o] * o[k], for all k, or for one row; of what is smaller
/// than `to` its last element is read for all k. Integers wrap.
struct Formula {
  const char* name;
  Operand to;
  std::array<std::uint64_t, num_operands> factors;  ///< 0: not read
  std::uint64_t constant;
  std::optional<Operand> merges{};  ///< the tensor that the merge buffer is to hold
  bool one_row = false;             ///< that of the static index
  bool twice = false;               ///< as two steps, and a call of the host between them

  [[nodiscard]] bool reads(Operand operand) const noexcept {
    return factors[static_cast<std::size_t>(operand)] != 0;
  }
  [[nodiscard]] bool uses(Operand tensor) const noexcept { return to == tensor || reads(tensor); }
  /// The element of an operand that is read for element k of its target.
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

/// How a kernel is called: entry k of its arguments is operands[k].
struct RuntimeKernel {
  const Formula* formula;
  std::vector<Operand> operands;
};

struct RuntimePrograms {
  std::vector<Tensor> tensors;  ///< by Operand
  HostArray host;               ///< storage of h
  StaticIndex row;
  std::vector<RuntimeProgram> programs;
  /// The number of the kernel of that symbol, which there is.
  [[nodiscard]] std::size_t kernel(const std::string& symbol) const noexcept;
  std::vector<std::pair<std::string, RuntimeKernel>> kernels;
};

/// `parts`: what its kernels say that they are worth; 0: what the compiler found.
[[nodiscard]] RuntimePrograms make_programs(const Backend& backend, std::uint32_t parts = 0);
/// For all simulations; made by the first call, which must be outside of one, by a compiler of
/// nothing: a played device (played_device.hpp) computes.
[[nodiscard]] const RuntimePrograms& runtime_programs();
/// Called by the step in the middle of a program of two, on any thread; set by the run.
void set_host_step(std::function<Status()> step);

}  // namespace heddle::stress
