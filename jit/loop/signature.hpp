// Signature: the interface of a kernel, as an ordered, serialisable value. Link checks, automatic
// ordering, donation and executors read it, and no caller re-derives it. Made by make_signature()
// (lower/lower.hpp). Any thread may read it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/tensor.hpp"
#include "jit/loop/interface.hpp"

namespace heddle::jit {

inline constexpr std::uint32_t signature_version = 4;

/// A buffer entry, in the order of Loop::buffers and of the kernel ABI.
struct SignatureEntry : BufferAccess {
  ArrayType type;
  /// Position of the entry with which this entry shares its buffer.
  std::optional<std::uint32_t> alias_of;
  /// The last statement of the kernel that reads the buffer, the first that writes it, counted from
  /// 1; 0: no statement does.
  std::uint32_t last_read = 0, first_write = 0;
  /// For an output: inputs that are read while the output is written, and whose memory it may take
  /// nevertheless.
  std::vector<std::uint32_t> takes;
  /// Placement of the tensor; unset for the merge buffer.
  MemoryMode mode = MemoryMode::unset;
  friend bool operator==(const SignatureEntry&, const SignatureEntry&) = default;
};

struct Signature {
  std::uint32_t version = signature_version;
  std::vector<SignatureEntry> entries;
  std::vector<StaticBounds> statics;  ///< per static index
  /// The entry of the merge buffer.
  std::optional<std::uint32_t> merge;
  /// Effects beyond buffers (none yet; host calls and ordered I/O later).
  std::uint32_t effects = 0;
  friend bool operator==(const Signature&, const Signature&) = default;

  /// True if the kernel computes the same results where entry `output` has the memory of entry
  /// `input`, which the kernel reads for the last time. Conservative (loop/donation.hpp).
  [[nodiscard]] bool may_take(std::size_t output, std::size_t input) const {
    const SignatureEntry &to = entries[output], &from = entries[input];
    const bool suit = from.role == Role::input && to.role == Role::output && to.overwrites_whole &&
                      from.type == to.type;
    return suit && (to.first_write == 0 || from.last_read < to.first_write ||
                    std::ranges::binary_search(to.takes, input));
  }

  [[nodiscard]] std::string serialize() const;
  /// Throws invalid_argument naming the line on malformed text or an unknown version.
  static Signature parse(std::string_view text);
};

}  // namespace heddle::jit
