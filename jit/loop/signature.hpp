// Signature: the interface of a kernel, as an ordered, serialisable value. Link checks, automatic
// ordering, donation and executors read it; nobody re-derives it. Any thread may read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

inline constexpr std::uint32_t signature_version = 1;

/// One buffer entry, in the order of Loop::buffers and of the kernel ABI.
struct SignatureEntry {
  Role role = Role::input;
  ArrayType type;
  bool reads = false;
  bool writes = false;
  bool reads_before_writing = false;
  /// Every element is written before any is read, whatever the statics: needs no zero fill (D2).
  bool overwrites_whole = false;
  /// Position of the entry this one shares its buffer with.
  std::optional<std::uint32_t> alias_of;
  bool may_donate = false;
  /// For axes subscripted by a static index: none of the fields above depends on its value.
  friend bool operator==(const SignatureEntry&, const SignatureEntry&) = default;
};

/// Bounds that a static index must keep so that every subscript stays in range: [lowest, highest].
struct StaticBounds {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;  ///< inclusive; lowest > highest: no value fits
  friend bool operator==(const StaticBounds&, const StaticBounds&) = default;
};

struct Signature {
  std::uint32_t version = signature_version;
  std::vector<SignatureEntry> entries;
  /// Per static index: its declared range intersected with what the subscripts allow on their own.
  std::vector<StaticBounds> statics;
  /// Entry that is the merge buffer.
  std::optional<std::uint32_t> merge;
  /// Effects beyond buffers (none yet; host calls and ordered I/O later).
  std::uint32_t effects = 0;
  friend bool operator==(const Signature&, const Signature&) = default;

  [[nodiscard]] std::string serialize() const;
  /// Throws invalid_argument naming the line on malformed text or an unknown version.
  static Signature parse(std::string_view text);
};

/// Reads a kernel's interface off its loops.
[[nodiscard]] Signature make_signature(const Loop& loop);

}  // namespace heddle::jit
