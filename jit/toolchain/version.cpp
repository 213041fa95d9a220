// VersionMemory: remembers a compiler's version. See toolchain/toolchain.hpp.
#include <fmt/format.h>

#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit {

bool VersionMemory::Note::is_current() const {
  return library.empty() || file_stamp(library) == stamp;
}

std::optional<VersionMemory::Note> VersionMemory::parse(std::span<const std::byte> bytes) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t first = all.find('\n');
  const std::size_t second = first == std::string_view::npos ? first : all.find('\n', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  return Note{std::string(all.substr(0, first)),
              std::string(all.substr(first + 1, second - first - 1)),
              std::string(all.substr(second + 1))};
}

std::optional<std::string> VersionMemory::find(KernelCache& cache, const std::string& stamps,
                                               const std::function<ToldVersion()>& ask) {
  const auto remember = [&](Note note) {
    std::string text = note.text + "\n" + note.stamp;
    const std::scoped_lock lock(mutex_);
    stamps_ = stamps;
    note_ = std::move(note);
    return text;
  };
  std::optional<Note> known;
  {
    const std::scoped_lock lock(mutex_);
    if (stamps_ == stamps) known = note_;
  }
  if (known && known->is_current()) return known->text + "\n" + known->stamp;
  const CompileKey key = KeyHasher().add("heddle toolchain").add(toolchain_).add(stamps).finish();
  if (const auto found = cache.load(key); found.entry) {
    auto note = parse(found.entry->library.bytes);
    if (note && note->is_current()) return remember(std::move(*note));
  }
  try {
    ToldVersion told = ask();
    Note note{std::move(told.text), told.library.string(), {}};
    if (!note.library.empty()) note.stamp = file_stamp(note.library);
    const std::string text = fmt::format("{}\n{}\n{}", note.text, note.library, note.stamp);
    cache.store(key, fmt::format("version of {}", toolchain_), std::as_bytes(std::span(text)));
    return remember(std::move(note));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::cancelled || error.code() == ErrorCode::deadline) throw;
    return std::nullopt;
  }
}

}  // namespace heddle::jit
