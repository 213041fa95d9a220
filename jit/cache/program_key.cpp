// See cache/program_key.hpp.
#include "jit/cache/program_key.hpp"

namespace heddle::jit {

CompileKey program_key(const ProgramForm& form, std::span<const Wish> wishes,
                       const CompileOptions& options) {
  FormWriter out;
  for (const Wish& wish : wishes) out.add(static_cast<std::uint64_t>(wish.mode));
  out.add(options.shared).add(options.fast_math).add(options.trace_values);
  out.add(options.unordered_scatters);
  out.add(static_cast<std::uint64_t>(options.schedule));
  std::uint64_t without = 0;
  for (const ScheduleStep step : options.schedule_without)
    without |= std::uint64_t{1} << static_cast<unsigned>(step);
  out.add(without).add(options.contraction_tile.has_value());
  const ContractionTile tile = options.contraction_tile.value_or(ContractionTile{});
  out.add_signed(tile.rows).add_signed(tile.vectors).add_signed(tile.terms);
  return KeyHasher().add(form.bytes).add(out.take()).add(options.choices.to_string()).finish();
}

}  // namespace heddle::jit
