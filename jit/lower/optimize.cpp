// The pass list. Pure; any thread.
#include "jit/loop/verify.hpp"
#include "jit/lower/passes.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {

Lowered optimize(Lowered lowered, const OptimizeOptions& options, const PassObserver& observer) {
  lowered.verified = verified_after("lower", lowered.loop, lowered.verified);
  const auto run = [&](std::string_view pass, auto&& make) {
    begin_stage(pass);
    const VerifiedLoop before = lowered.verified;
    lowered = make();
    lowered.verified = verified_after(pass, lowered.loop, before);
    if (observer && !lowered.verified.shares(before)) observer(pass, lowered);
  };
  run("infer_placements", [&] { return infer_placements(lowered, options); });
  run("inline_virtual", [&] { return inline_virtual(lowered); });
  run("simplify", [&] { return simplify(lowered, options.fast_math); });
  run("drop_dead", [&] { return drop_dead(lowered); });
  run("renumber", [&] { return renumber(lowered); });
  return lowered;
}

}  // namespace heddle::jit
