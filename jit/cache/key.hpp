// What makes two compiles the same: hashes of everything that decides the resulting library. Pure
// but for looks at the file system and the processor; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace heddle::jit {

/// 256 bits of BLAKE2b (RFC 7693): nobody finds two texts with the same.
using CompileKey = std::array<std::byte, 32>;

/// Collects fields so that no two lists of fields run together to the same bytes.
class KeyHasher {
 public:
  KeyHasher& add(std::string_view field);
  KeyHasher& add(const CompileKey& key);
  [[nodiscard]] CompileKey finish() const;

 private:
  std::string bytes_;
};

/// 64 lower-case hex digits.
[[nodiscard]] std::string to_hex(const CompileKey& key);

/// `text` without what follows `mark` on each line, and without blanks before that. For heddle's
/// own texts, which hold `mark` nowhere else.
[[nodiscard]] std::string without_comments(std::string_view text, std::string_view mark);

/// "PATH SIZE MTIME_NS" of the file behind a path, links followed: tells versions of a program
/// apart without reading it. "PATH missing" when there is none.
[[nodiscard]] std::string file_stamp(const std::filesystem::path& path);

/// What generated code may depend on in this processor: model and instruction sets, as numbers.
[[nodiscard]] const std::string& processor_stamp();

}  // namespace heddle::jit
