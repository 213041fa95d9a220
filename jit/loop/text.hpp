// The only textual form of the loop IR: printed, parsed, hashed, sent to the compile helper, kept
// as golden files. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/loop/verify.hpp"

namespace heddle::jit {

/// Names shown as trailing comments of declarations (never part of the canonical text).
struct LoopNames {
  std::vector<std::string> buffers;
  std::vector<std::string> statics;
};

/// The form of constants in texts, "1.5:f32": the shortest decimal that parses to the same bits;
/// "nan:f32" for every payload. Exact.
[[nodiscard]] std::string print(const Scalar& scalar);
/// Canonical text: equal loops print equal bytes, whatever was built before. Ends with a newline.
[[nodiscard]] std::string print(const Loop& loop, const LoopNames* names = nullptr);
/// Inverse of print(). Throws invalid_argument with line, column, the expected and the found text.
[[nodiscard]] VerifiedLoop parse_loop(std::string_view text);
/// 128-bit BLAKE2b of a text, as 32 hex digits.
[[nodiscard]] std::string digest(std::string_view text);
/// digest() of the canonical text, as 32 hex digits. Comments inside the kernel do not count.
[[nodiscard]] std::string hash(const Loop& loop);

}  // namespace heddle::jit
