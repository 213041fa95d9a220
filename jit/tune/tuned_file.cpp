// See tune/tuned_file.hpp.
#include "jit/tune/tuned_file.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "heddle/status.hpp"
#include "jit/cache/kept_text.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle {
namespace {

constexpr std::array<std::string_view, 5> verdict_names{"unmeasured", "measured", "dropped",
                                                        "different", "failed"};

}  // namespace

std::string_view name(TuneVerdict verdict) noexcept {
  const auto at = static_cast<std::size_t>(verdict);
  return at < verdict_names.size() ? verdict_names[at] : "unknown";
}

namespace jit {
namespace {

constexpr std::string_view tuned_format = "1";
constexpr std::size_t tuned_file_bytes_max = std::size_t{1} << 20;
constexpr std::string_view tuned_prefix = "tuned-";

std::string sum_line(std::string_view text) {
  return fmt::format("sum {:016x}\n", XXH3_64bits(text.data(), text.size()));
}

/// The name covers the machine: machines that share a folder use different files.
std::string tuned_file_name(const TunedFor& whose) {
  return std::string(tuned_prefix) +
         to_hex(KeyHasher().add(whose.program).add(whose.machine).finish()).substr(0, 32);
}

/// A reader of the rest of a text, line by line or word by word.
class TunedReader {
 public:
  explicit TunedReader(std::string_view text) : rest_(text) {}

  /// The value of the next line, if the line has this name.
  std::optional<std::string_view> line(std::string_view name) {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos || !rest_.starts_with(name) || rest_.size() <= name.size() ||
        rest_[name.size()] != ' ')
      return std::nullopt;
    const std::string_view value = rest_.substr(name.size() + 1, end - name.size() - 1);
    rest_.remove_prefix(end + 1);
    return value;
  }
  std::string_view word() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view value = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return value;
  }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

 private:
  std::string_view rest_;
};

/// Reads a number in its only valid form; the number must be finite and not negative.
template <class T>
bool read_number(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end && fmt::format("{}", value) == text &&
         std::isfinite(static_cast<double>(value)) && !(value < T{0});
}

std::optional<TunedCandidate> parse_candidate(std::string_view text) {
  TunedReader words(text);
  TunedCandidate made;
  const auto* const verdict = std::ranges::find(verdict_names, words.word());
  if (verdict == verdict_names.end()) return std::nullopt;
  made.verdict = static_cast<TuneVerdict>(verdict - verdict_names.begin());
  const std::string_view order = words.word();
  if (order != "same" && order != "other") return std::nullopt;
  made.same_order = order == "same";
  if (!read_number(words.word(), made.rounds) || !read_number(words.word(), made.estimated_us) ||
      !read_number(words.word(), made.median_us) || !read_number(words.word(), made.ratio))
    return std::nullopt;
  try {
    made.choices = ScheduleChoices::parse(words.rest());
  } catch (const Error&) {
    return std::nullopt;
  }
  return made;
}

}  // namespace

std::string to_text(const TunedSchedule& report, const TunedFor& whose) {
  std::string text =
      fmt::format("heddle-tuned {}\nheddle {}\nprogram {}\nmachine {}\nbest {}\n", tuned_format,
                  HEDDLE_VERSION, to_hex(whose.program), whose.machine, report.best);
  for (const TunedCandidate& each : report.candidates) {
    text += fmt::format("candidate {} {} {} {} {} {} {}\n", name(each.verdict),
                        each.same_order ? "same" : "other", each.rounds, each.estimated_us,
                        each.median_us, each.ratio, each.choices.to_string());
  }
  return text + sum_line(text);
}

std::variant<TunedSchedule, std::string> parse_tuned(std::string_view text, const TunedFor& whose) {
  const sched::DefaultFloating floating;
  TunedReader lines(text);
  const auto format = lines.line("heddle-tuned");
  if (!format) return "it is damaged (it does not begin as a tuning file)";
  if (*format != tuned_format) {
    return fmt::format("it is another version's (format {:.20}, expected {})", *format,
                       tuned_format);
  }
  const std::size_t sum_at = text.rfind("sum ");
  if (sum_at == std::string_view::npos || text.substr(sum_at) != sum_line(text.substr(0, sum_at)))
    return "it is damaged (its checksum differs)";
  const auto version = lines.line("heddle");
  if (version != HEDDLE_VERSION) {
    return fmt::format("it is another version's (heddle {:.40}, expected {})",
                       version.value_or("of no number"), HEDDLE_VERSION);
  }
  if (lines.line("program") != to_hex(whose.program)) return "it is another program's";
  if (lines.line("machine") != whose.machine) return "it is another machine's";
  TunedSchedule report;
  const auto best = lines.line("best");
  if (!best || !read_number(*best, report.best)) return "it is damaged (best: expected a number)";
  while (const auto line = lines.line("candidate")) {
    auto candidate = parse_candidate(*line);
    if (!candidate) return fmt::format("it is damaged (candidate {})", report.candidates.size());
    report.candidates.push_back(*std::move(candidate));
  }
  if (report.best >= report.candidates.size()) return "it is damaged (it lacks its best candidate)";
  if (!lines.line("sum") || !lines.rest().empty()) return "it is damaged (it has too many lines)";
  return report;
}

KnownTuned known_tuned(const std::filesystem::path& folder, const TunedFor& whose) {
  KnownTuned known;
  if (folder.empty()) return known;
  KeptText kept = read_kept_text(folder, tuned_file_name(whose), tuned_file_bytes_max);
  known.file = std::move(kept.file);
  known.problem = std::move(kept.problem);
  known.folder_refused = kept.folder_refused;
  if (!kept.text) return known;
  auto parsed = parse_tuned(*kept.text, whose);
  if (const auto* const problem = std::get_if<std::string>(&parsed)) {
    known.problem = *problem;
  } else {
    known.report = std::get<TunedSchedule>(std::move(parsed));
    known.report->file = known.file.string();
  }
  return known;
}

std::filesystem::path keep_tuned(const std::filesystem::path& folder, const TunedSchedule& report,
                                 const TunedFor& whose) {
  std::filesystem::path file =
      keep_text(folder, tuned_file_name(whose), to_text(report, whose), "what was tuned");
  remove_kept_texts(folder, tuned_prefix, tuned_files_max);
  return file;
}

std::size_t forget_tuned(const std::filesystem::path& folder) {
  return remove_kept_texts(folder, tuned_prefix, 0);
}

}  // namespace jit
}  // namespace heddle
