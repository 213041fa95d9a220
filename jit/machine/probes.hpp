// How each value of a machine profile is measured. One thread; some values start threads of their
// own, and all want the machine for themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "jit/machine/profile.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

class MachineProbes {
 public:
  /// Takes four times the last-level cache, 32 to 256 MiB, and some 0.3 s. Throws std::bad_alloc.
  explicit MachineProbes(const Target& target);
  MachineProbes(const MachineProbes&) = delete;
  MachineProbes& operator=(const MachineProbes&) = delete;

  /// A value, once, within 0.3 s or so; nothing where it takes two processors and there is but one,
  /// infinite where the other was not had. Throws Error(unavailable) where no thread can be
  /// started.
  [[nodiscard]] std::optional<double> operator()(const MachineValue& value);

 private:
  /// What memory_load_ns goes along: each line has the number of the next one.
  struct Line {
    alignas(64) std::uint64_t next;
  };

  [[nodiscard]] double copy_mb_s(std::size_t bytes);
  [[nodiscard]] double all_copy_mb_s();
  [[nodiscard]] double memory_load_ns();

  struct Free {
    void operator()(Line* lines) const noexcept;
  };
  using Lines = std::unique_ptr<Line[], Free>;
  [[nodiscard]] static Lines make_lines(std::size_t count);

  const std::size_t l2_bytes_, l3_bytes_, lines_;
  Lines from_, to_;
  std::uint64_t at_ = 0;
};

}  // namespace heddle::jit
