// See machine/profile_file.hpp.
#include "jit/machine/profile_file.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>
#include <optional>
#include <utility>

#include "jit/cache/kept_text.hpp"
#include "jit/machine/profile.hpp"

namespace heddle::jit {
namespace {

constexpr std::string_view machine_format = "1";
constexpr std::size_t machine_file_bytes_max = 4096;

std::uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string machine_file_name(std::string_view processor) {
  return fmt::format("machine-{:016x}", hash_of(processor));
}

/// The lines of a text, "NAME VALUE" each.
class MachineLines {
 public:
  explicit MachineLines(std::string_view text) : rest_(text) {}

  /// The value of the next line, if the line has this name.
  std::optional<std::string_view> next(std::string_view name) {
    const std::string prefix = std::string(name) + " ";
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos || !rest_.starts_with(prefix)) return std::nullopt;
    const std::string_view value = rest_.substr(prefix.size(), end - prefix.size());
    rest_.remove_prefix(end + 1);
    return value;
  }
  [[nodiscard]] bool ended() const noexcept { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::optional<std::int64_t> number_in(std::string_view text, std::int64_t most) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end || value < 1 || value > most) return std::nullopt;
  return value;
}

}  // namespace

std::string to_text(const MachineProfile& profile, std::string_view processor) {
  std::string text = fmt::format("heddle-machine {}\nprocessor {}\n", machine_format, processor);
  for (const MachineValue& each : machine_values)
    text += fmt::format("{} {}\n", each.name, profile.*each.value);
  return text + fmt::format("sum {:016x}\n", hash_of(text));
}

std::variant<MachineProfile, std::string> parse_machine(std::string_view text,
                                                        std::string_view processor) {
  MachineLines lines(text);
  const auto format = lines.next("heddle-machine");
  if (!format) return "it is damaged (it does not begin as a machine profile)";
  if (*format != machine_format) {
    return fmt::format("it is another version's (format {:.20}, expected {})", *format,
                       machine_format);
  }
  const std::size_t sum_at = text.rfind("sum ");
  if (sum_at == std::string_view::npos ||
      text.substr(sum_at) != fmt::format("sum {:016x}\n", hash_of(text.substr(0, sum_at))))
    return "it is damaged (its checksum differs)";
  const auto whose = lines.next("processor");
  if (whose != processor) return "it is another processor's";
  MachineProfile profile;
  for (const MachineValue& each : machine_values) {
    const auto value = lines.next(each.name);
    const auto number = value ? number_in(*value, each.most) : std::nullopt;
    if (!number)
      return fmt::format("it is damaged ({}: expected a number from 1 to {})", each.name,
                         each.most);
    profile.*each.value = *number;
  }
  if (!lines.next("sum") || !lines.ended()) return "it is damaged (it has too many lines)";
  return profile;
}

KnownMachine known_machine(const std::filesystem::path& folder, std::string_view processor) {
  KnownMachine known{usual_profile(native_target().isa)};
  KeptText kept = read_kept_text(folder, machine_file_name(processor), machine_file_bytes_max);
  known.file = std::move(kept.file);
  known.problem = std::move(kept.problem);
  if (!kept.text) return known;
  const auto parsed = parse_machine(*kept.text, processor);
  if (const auto* const problem = std::get_if<std::string>(&parsed)) {
    known.problem = *problem;
  } else {
    known.profile = std::get<MachineProfile>(parsed);
    known.measured = true;
  }
  return known;
}

std::filesystem::path keep_machine(const std::filesystem::path& folder,
                                   const MachineProfile& profile, std::string_view processor) {
  return keep_text(folder, machine_file_name(processor), to_text(profile, processor),
                   "the machine profile");
}

}  // namespace heddle::jit
