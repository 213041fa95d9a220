// Choices that override the cost model: their validation, the constants that follow from them, and
// their text form (heddle/schedule.hpp). Pure; any thread.
#pragma once

#include "heddle/schedule.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// A constant that a choice replaces.
struct ProfileChoice {
  std::optional<std::int64_t> ScheduleChoices::* choice;
  const KernelValue* value;
};
inline constexpr ProfileChoice profile_choices[] = {
    {&ScheduleChoices::terms_ahead, &kernel_values[0]},
    {&ScheduleChoices::lines_fetched, &kernel_values[1]},
    {&ScheduleChoices::lines_written, &kernel_values[2]},
    {&ScheduleChoices::lines_ahead, &kernel_values[3]},
    {&ScheduleChoices::rows_together, &kernel_values[4]},
    {&ScheduleChoices::unrolled_steps, &kernel_values[5]},
    {&ScheduleChoices::cached_bytes_max, &kernel_values[6]},
    {&ScheduleChoices::part_bytes, &kernel_values[7]}};

/// Throws invalid_argument, naming the choice, where no schedule for `target` could use a choice.
void check_choices(const ScheduleChoices& choices, const Target& target);
/// `target` with the chosen constants.
[[nodiscard]] Target with_choices(Target target, const ScheduleChoices& choices);

}  // namespace heddle::jit
