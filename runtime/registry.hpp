// The table of backends: built-in rows and registered ones. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "heddle/backend.hpp"
#include "jit/toolchain/compiler.hpp"

namespace heddle::rt {

[[nodiscard]] std::vector<BackendSpec> all_specs();
/// Case-insensitive.
[[nodiscard]] std::optional<BackendSpec> find_spec(std::string_view name);
/// A backend that heddle knows but does not have here, and why. Case-insensitive.
[[nodiscard]] std::optional<BackendInfo> find_absent(std::string_view name);
[[nodiscard]] std::vector<BackendInfo> all_absent();
/// The compiler that a row names, set up by the options. Throws invalid_argument for an unknown
/// one.
[[nodiscard]] std::shared_ptr<const jit::Compiler> make_compiler(const BackendSpec& spec,
                                                                 const BackendOptions& options);

}  // namespace heddle::rt
