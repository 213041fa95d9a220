// See schedule/choices.hpp.
#include "jit/schedule/choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "heddle/status.hpp"
#include "jit/schedule/contraction.hpp"

namespace heddle {
namespace {

constexpr std::string_view as_modelled = "as modelled";
constexpr std::array<std::string_view, 9> step_names{"fuse",      "hoist",     "contraction",
                                                     "reduction", "transpose", "elementwise",
                                                     "stream",    "prefetch",  "parallel"};

[[noreturn]] void refuse_choice(std::string_view part, std::string_view expected) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("'{:.100}' is no choice of a schedule (expected {})", part, expected));
}

/// Removes and returns the first word of `text`.
std::string_view next_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::int64_t whole_number(std::string_view part, std::string_view text, std::int64_t least) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end || value < least)
    refuse_choice(part, fmt::format("a number from {}", least));
  return value;
}

ScheduleChoices::Tile parse_tile(std::string_view part, std::string_view text) {
  const std::size_t by = text.find('x');
  if (by == std::string_view::npos) refuse_choice(part, "ROWSxVECTORS");
  return {whole_number(part, text.substr(0, by), 1), whole_number(part, text.substr(by + 1), 1)};
}

std::vector<ScheduleStep> parse_steps(std::string_view part, std::string_view text) {
  std::vector<ScheduleStep> steps;
  while (!text.empty()) {
    const auto* const at = std::ranges::find(step_names, next_word(text));
    if (at == step_names.end()) refuse_choice(part, "names of steps, such as fuse");
    steps.push_back(static_cast<ScheduleStep>(at - step_names.begin()));
  }
  if (steps.empty() || !std::ranges::is_sorted(steps, std::ranges::less_equal()))
    refuse_choice(part, "steps, each once, in the order of ScheduleStep");
  return steps;
}

/// The choice for factor "a" or "b"; throws for any other name.
std::optional<bool>& factor_of(ScheduleChoices& choices, std::string_view part,
                               std::string_view factor) {
  if (factor != "a" && factor != "b") refuse_choice(part, "factor a or b");
  return factor == "a" ? choices.pack_a : choices.pack_b;
}

/// Parses a single choice, such as "tile 6x2".
void parse_choice(ScheduleChoices& choices, std::string_view part) {
  std::string_view rest = part;
  const std::string_view what = next_word(rest);
  const auto once = [&](bool set) {
    if (set) refuse_choice(part, "each choice once");
  };
  if (what == "tile") {
    once(choices.tile.has_value());
    choices.tile = parse_tile(part, rest);
  } else if (what == "terms") {
    once(choices.terms.has_value());
    choices.terms = rest == "all" ? 0 : whole_number(part, rest, 1);
  } else if (part == "turned" || part == "not turned") {
    once(choices.turned.has_value());
    choices.turned = part == "turned";
  } else if (what == "pack" || (what == "no" && next_word(rest) == "pack")) {
    std::optional<bool>& pack = factor_of(choices, part, rest);
    once(pack.has_value());
    pack = what == "pack";
  } else if (what == "without") {
    once(!choices.without.empty());
    choices.without = parse_steps(part, rest);
  } else {
    for (const jit::ProfileChoice& each : jit::profile_choices) {
      if (what != each.value->name) continue;
      once((choices.*each.choice).has_value());
      choices.*each.choice = whole_number(part, rest, 1);
      return;
    }
    refuse_choice(part,
                  "tile, terms, turned, pack, no pack, without, or a constant of KernelProfile");
  }
}

}  // namespace

std::string_view name(ScheduleStep step) noexcept {
  const auto at = static_cast<std::size_t>(step);
  return at < step_names.size() ? step_names[at] : "unknown";
}

std::string ScheduleChoices::to_string() const {
  std::string text;
  const auto add = [&text](const std::string& part) { text += text.empty() ? part : "; " + part; };
  if (tile) add(fmt::format("tile {}x{}", tile->rows, tile->vectors));
  if (terms) add(*terms == 0 ? "terms all" : fmt::format("terms {}", *terms));
  if (turned) add(*turned ? "turned" : "not turned");
  for (const auto& [factor, pack] : {std::pair("a", pack_a), std::pair("b", pack_b)}) {
    if (pack) add(fmt::format("{}pack {}", *pack ? "" : "no ", factor));
  }
  if (!without.empty()) {
    std::string steps = "without";
    for (const ScheduleStep step : without) steps += fmt::format(" {}", name(step));
    add(steps);
  }
  for (const jit::ProfileChoice& each : jit::profile_choices) {
    if (const auto& value = this->*each.choice) add(fmt::format("{} {}", each.value->name, *value));
  }
  return text.empty() ? std::string(as_modelled) : text;
}

ScheduleChoices ScheduleChoices::parse(std::string_view text) {
  ScheduleChoices choices;
  if (text == as_modelled) return choices;
  constexpr std::string_view between = "; ";
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(between, from), text.size());
    parse_choice(choices, text.substr(from, end - from));
    from = end + between.size();
  }
  return choices;
}

namespace jit {

void check_choices(const ScheduleChoices& choices, const Target& target) {
  if (choices.tile) {
    const auto [rows, vectors] = *choices.tile;
    const std::int64_t free = tile_registers(target);
    const bool fits = rows >= 1 && vectors >= 1 && rows <= free && vectors <= free &&
                      rows * vectors + vectors <= free;
    if (target.isa != Isa::none && !fits) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("ScheduleChoices::tile has {} rows of {} vectors; both begin at 1, "
                              "and sums and one row more are to fit {} registers, as {} has them "
                              "for this",
                              rows, vectors, free, name(target.isa)));
    }
  }
  if (!std::ranges::is_sorted(choices.without, std::ranges::less_equal()) ||
      std::ranges::any_of(choices.without,
                          [](ScheduleStep step) { return name(step) == "unknown"; })) {
    throw Error(ErrorCode::invalid_argument,
                "ScheduleChoices::without has steps twice, out of order or unknown ones (expected "
                "those of ScheduleStep, each once, in that order)");
  }
  if (choices.terms && *choices.terms < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("ScheduleChoices::terms is {} (expected 0 or more)", *choices.terms));
  }
  for (const ProfileChoice& each : profile_choices) {
    const auto& value = choices.*each.choice;
    if (!value || (*value >= 1 && *value <= each.value->most)) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("ScheduleChoices::{} is {} (expected 1 to {})", each.value->name,
                            *value, each.value->most));
  }
}

Target with_choices(Target target, const ScheduleChoices& choices) {
  for (const ProfileChoice& each : profile_choices) {
    if (const auto& value = choices.*each.choice) target.profile.*each.value->value = *value;
  }
  return target;
}

}  // namespace jit
}  // namespace heddle
