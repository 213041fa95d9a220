// The machine's profile in `heddle info`. One thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "jit/machine/profile_file.hpp"

namespace heddle::tools {

/// The profile of backends opened now, and its origin. Throws Error for malformed settings.
[[nodiscard]] jit::KnownMachine machine_in_use();
[[nodiscard]] std::string machine_text(const jit::KnownMachine& machine);
[[nodiscard]] nlohmann::ordered_json machine_json(const jit::KnownMachine& machine);

}  // namespace heddle::tools
