// See order_program.hpp.
#include "tests/unit/runtime/order_program.hpp"

#include <fmt/format.h>

namespace heddle {
namespace {

bool touch_the_same(const Step& early, const Step& late) {
  return std::ranges::any_of(early.touches, [&](const StepBytes& one) {
    return std::ranges::any_of(late.touches,
                               [&](const StepBytes& other) { return one.conflicts(other); });
  });
}

}  // namespace

OrderProgram::OrderProgram(std::uint64_t seed, OrderProgramKinds kinds)
    : random_(seed), kinds_(kinds) {
  devices = 2 + below(3);
  loaded_.resize(devices);
  const std::size_t count = 4 + below(14);
  for (std::size_t k = 0; k < count; ++k) add_step();
}

std::size_t OrderProgram::plant() {
  std::size_t left_out = 0;
  for (Step& step : steps)
    left_out += std::erase_if(step.after, [&](const StepEdge&) { return below(3) == 0; });
  return left_out;
}

std::optional<StepPair> OrderProgram::plant_one() {
  std::vector<StepPair> all;  // a step, and which of its waits
  for (std::size_t k = 0; k < steps.size(); ++k) {
    for (std::size_t n = 0; n < steps[k].after.size(); ++n) {
      if (touch_the_same(steps[steps[k].after[n].before], steps[k])) all.emplace_back(k, n);
    }
  }
  std::ranges::shuffle(all, random_);
  for (const auto& [k, n] : all) {
    Step& step = steps[k];
    const std::vector<StepEdge> whole = step.after;
    const StepEdge edge = whole[n];
    step.after.erase(step.after.begin() + static_cast<std::ptrdiff_t>(n));
    if (!closure()[edge.before][k]) {
      step.left_out = {edge};
      return StepPair(edge.before, k);
    }
    step.after = whole;
  }
  return std::nullopt;
}

std::vector<std::vector<bool>> OrderProgram::closure() const {
  const std::size_t n = steps.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = 0; i < k; ++i) {
      const bool on_devices = !steps[i].is_of_host() && !steps[k].is_of_host();
      if (on_devices && steps[i].device == steps[k].device) before[i][k] = true;
      if (steps[i].host_sees_end()) before[i][k] = true;
    }
    for (const StepEdge& edge : steps[k].after) {
      const std::size_t last = edge.how == StepWait::host_waits ? n : k + 1;
      for (std::size_t later = k; later < last; ++later) before[edge.before][later] = true;
    }
  }
  for (std::size_t via = 0; via < n; ++via) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < n && before[i][via]; ++k) {
        if (before[via][k]) before[i][k] = true;
      }
    }
  }
  return before;
}

OrderProgram::Expected OrderProgram::expected() const {
  const auto before = closure();
  Expected result;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    for (std::size_t i = 0; i < k; ++i) {
      if (before[i][k]) continue;
      for (const StepBytes& late : steps[k].touches) {
        for (const StepBytes& early : steps[i].touches) {
          if (!early.conflicts(late)) continue;
          result.all.emplace(i, k);
          if (!is_stood_for(i, k, early, before)) result.told.emplace(i, k);
        }
      }
    }
  }
  return result;
}

/// A step between them, after the first one, is told of instead.
bool OrderProgram::is_stood_for(std::size_t i, std::size_t k, const StepBytes& early,
                                const std::vector<std::vector<bool>>& before) const {
  for (std::size_t other = i + 1; other < k; ++other) {
    for (const StepBytes& touch : steps[other].touches) {
      if (touch.writes && touch.covers(early) && before[i][other]) return true;
      const bool alike = !touch.writes && !early.writes && !steps[other].is_of_host();
      if (alike && touch.covers(early) && early.covers(touch) &&
          steps[i].device == steps[other].device)
        return true;
    }
  }
  return false;
}

std::string OrderProgram::to_string() const {
  constexpr const char* kinds[num_step_kinds] = {
      "own",    "routine",   "merge",      "load",       "consume",        "copy",
      "replay", "from_host", "to_host",    "copy_view",  "view_from_host", "view_to_host",
      "read",   "write",     "host_reads", "host_writes"};
  constexpr const char* waits[] = {"listed", "device waits", "inside", "host waits"};
  std::string text;
  for (const Step& step : steps) {
    text +=
        fmt::format("{}: {}{} on {}", &step - steps.data(),
                    kinds[static_cast<std::size_t>(step.kind)], step.streams ? " (streams)" : "",
                    step.is_of_host() ? "the host" : std::to_string(step.device));
    for (const StepBytes& each : step.touches)
      text += fmt::format(", {} {}[{}, {})", each.writes ? "writes" : "reads", each.memory,
                          each.begin, each.end);
    const auto edges = [&](const char* what, const std::vector<StepEdge>& all) {
      for (const StepEdge& each : all)
        text += fmt::format(", {} {} ({})", what, each.before,
                            waits[static_cast<std::size_t>(each.how)]);
    };
    edges("after", step.after);
    edges("lacks", step.left_out);
    text += '\n';
  }
  return text;
}

void OrderProgram::add_step() {
  Step step = kinds_.all ? draw_step() : draw_own();
  const std::size_t me = steps.size();
  std::uint32_t known = host_;
  for (std::size_t i = 0; i < me && !step.is_of_host(); ++i) {
    if (!steps[i].is_of_host() && steps[i].device == step.device) known |= known_[i] | 1U << i;
  }
  for (std::size_t i = me; i-- > 0;) {
    const bool needed = touch_the_same(steps[i], step);
    if ((!needed && below(8) != 0) || (known >> i & 1U) != 0) continue;
    step.after.push_back({i, draw_how(step)});
    known |= known_[i] | 1U << i;
    if (step.after.back().how == StepWait::host_waits) host_ |= known_[i] | 1U << i;
  }
  if (step.host_sees_end()) host_ |= known | 1U << me;
  steps.push_back(std::move(step));
  known_.push_back(known);
}

Step OrderProgram::draw_own() {
  Step step{StepKind::own, below(devices)};
  std::vector<std::size_t> order(buffers + (kinds_.all ? 1 : 0));
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::ranges::shuffle(order, random_);
  const std::size_t count = 1 + below(2);
  for (std::size_t k = 0; k < count; ++k) {
    StepBytes touch = draw_bytes(below(2) == 0);
    touch.memory = order[k];
    if (touch.memory == host_array) touch = {host_array, 0, bytes, touch.writes};
    step.touches.push_back(touch);
  }
  return step;
}

Step OrderProgram::draw_step() {
  Step step{static_cast<StepKind>(below(num_step_kinds)), below(devices)};
  auto& load = loaded_[step.device];
  if (load) step.kind = StepKind::consume;  // before another load, or a merge, which clears it
  if (!load && step.kind == StepKind::consume) step.kind = StepKind::routine;
  const StepBytes written = draw_bytes(true), read = draw_beside(written, false);
  const StepBytes whole{written.memory, 0, bytes, step.kind == StepKind::from_host};
  const StepBytes array{host_array, 0, bytes, !whole.writes};
  switch (step.kind) {
    case StepKind::own:
      return draw_own();
    case StepKind::routine:
      step.touches = {written, read};
      if (const std::size_t which = below(3); which < 2)
        step.touches.erase(step.touches.begin() + static_cast<std::ptrdiff_t>(which));
      return step;
    case StepKind::merge:
      step.streams = below(2) == 0;
      step.touches = {written, read};
      return step;
    case StepKind::load:
      step.streams = below(2) == 0;
      step.touches = {read};
      load = {read, step.streams};
      return step;
    case StepKind::consume:
      step.streams = load->streams;
      step.touches = {draw_beside(load->source, true)};
      if (step.streams) step.touches.push_back(load->source);
      load.reset();
      return step;
    case StepKind::copy:
    case StepKind::replay:
    case StepKind::copy_view:
      step.touches = {written, read};
      return step;
    case StepKind::from_host:
      step.touches = {whole, array};
      return step;
    case StepKind::to_host:
      step.touches = {array, whole};
      return step;
    case StepKind::view_from_host:
    case StepKind::write:
      step.touches = {written};
      return step;
    case StepKind::view_to_host:
    case StepKind::read:
      step.touches = {read};
      return step;
    case StepKind::host_reads:
    case StepKind::host_writes:
      step.touches = {{host_array, 0, bytes, step.kind == StepKind::host_writes}};
      return step;
  }
  return step;
}

StepBytes OrderProgram::draw_bytes(bool writes) {
  const std::size_t half = below(3);  // all, or one of two
  return {below(buffers), half == 2 ? bytes / 2 : 0, half == 1 ? bytes / 2 : bytes, writes};
}

StepBytes OrderProgram::draw_beside(const StepBytes& other, bool writes) {
  StepBytes one = draw_bytes(writes);
  while (one.end - one.begin != other.end - other.begin || one.overlaps(other))
    one = draw_bytes(writes);
  return one;
}

StepWait OrderProgram::draw_how(const Step& step) {
  const std::size_t drawn = below(8);
  if (drawn == 0 || step.is_of_host()) return StepWait::host_waits;
  if (drawn == 1 || !step.lists_events()) return StepWait::device_waits;
  const bool may_wait = step.kind == StepKind::own && kinds_.waits_inside;
  return drawn == 2 && may_wait ? StepWait::inside : StepWait::listed;
}

}  // namespace heddle
