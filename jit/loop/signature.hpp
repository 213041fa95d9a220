// Signature: the interface of a kernel, as an ordered, serialisable value. Link checks, automatic
// ordering, donation and executors read it; nobody re-derives it. Made by make_signature()
// (lower/lower.hpp). Any thread may read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/tensor.hpp"
#include "jit/loop/interface.hpp"

namespace heddle::jit {

inline constexpr std::uint32_t signature_version = 2;

/// One buffer entry, in the order of Loop::buffers and of the kernel ABI.
struct SignatureEntry : BufferAccess {
  ArrayType type;
  /// Position of the entry this one shares its buffer with.
  std::optional<std::uint32_t> alias_of;
  bool may_donate = false;
  /// Where its tensor was placed; unset for the merge buffer.
  MemoryMode mode = MemoryMode::unset;
  friend bool operator==(const SignatureEntry&, const SignatureEntry&) = default;
};

struct Signature {
  std::uint32_t version = signature_version;
  std::vector<SignatureEntry> entries;
  std::vector<StaticBounds> statics;  ///< per static index
  /// Entry that is the merge buffer.
  std::optional<std::uint32_t> merge;
  /// Effects beyond buffers (none yet; host calls and ordered I/O later).
  std::uint32_t effects = 0;
  friend bool operator==(const Signature&, const Signature&) = default;

  [[nodiscard]] std::string serialize() const;
  /// Throws invalid_argument naming the line on malformed text or an unknown version.
  static Signature parse(std::string_view text);
};

}  // namespace heddle::jit
