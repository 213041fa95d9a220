// The pass list. Pure; any thread.
#include "heddle/status.hpp"
#include "jit/loop/verify.hpp"
#include "jit/lower/passes.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {

Lowered optimize(Lowered lowered, const OptimizeOptions& options, const PassObserver& observer) {
  // A pass that breaks the IR is heddle's fault: found here, between two passes, not in a
  // compiler's words.
  const auto check = [](std::string_view pass, const Lowered& after) {
    if (Status legal = verify(after.loop); !legal.ok()) {
      throw Error(ErrorCode::internal, std::string(pass) + " made an illegal kernel",
                  std::move(legal));
    }
  };
  const auto run = [&](std::string_view pass, auto&& make) {
    begin_stage(pass);
    Lowered after = make();
    check(pass, after);
    if (observer && !(after.loop == lowered.loop)) observer(pass, after);
    lowered = std::move(after);
  };
  check("lower", lowered);
  run("infer_placements", [&] { return infer_placements(lowered, options); });
  run("inline_virtual", [&] { return inline_virtual(lowered); });
  run("simplify", [&] { return simplify(lowered, options.fast_math); });
  run("drop_dead", [&] { return drop_dead(lowered); });
  run("renumber", [&] { return renumber(lowered); });
  return lowered;
}

}  // namespace heddle::jit
