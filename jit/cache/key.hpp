// Keys of compiles: hashes of everything that decides the resulting library. Pure, except for reads
// of the file system and the processor; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace heddle::jit {

/// 256 bits of BLAKE2b (RFC 7693), which has no known collisions.
using CompileKey = std::array<std::byte, 32>;

/// Encodes fields such that different lists of fields give different bytes.
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

/// `text` without the rest of each line from `mark` on, and without blanks before `mark`. For
/// heddle's own texts, in which `mark` only starts comments.
[[nodiscard]] std::string without_comments(std::string_view text, std::string_view mark);

/// "PATH SIZE MTIME_NS" of the file behind a path, links followed: distinguishes versions of a
/// program without reading the file. "PATH missing" without a file.
[[nodiscard]] std::string file_stamp(const std::filesystem::path& path);

/// The properties of this processor that generated code may depend on: model and instruction sets,
/// as numbers.
[[nodiscard]] const std::string& processor_stamp();

}  // namespace heddle::jit
