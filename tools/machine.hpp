// What `heddle info` says of the machine's profile. One thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "jit/machine/profile_file.hpp"

namespace heddle::tools {

/// What backends that are opened now have, and where it is from. Throws Error for malformed
/// settings.
[[nodiscard]] jit::KnownMachine machine_in_use();
[[nodiscard]] std::string machine_text(const jit::KnownMachine& machine);
[[nodiscard]] nlohmann::ordered_json machine_json(const jit::KnownMachine& machine);

}  // namespace heddle::tools
