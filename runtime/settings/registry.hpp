// The table of backends: built-in rows and registered ones. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "devices/device.hpp"
#include "heddle/backend.hpp"
#include "jit/toolchain/compiler.hpp"

namespace heddle::rt {

[[nodiscard]] std::vector<BackendSpec> all_specs();
/// Case-insensitive.
[[nodiscard]] std::optional<BackendSpec> find_spec(std::string_view name);
/// Throws Error where they cannot be had.
[[nodiscard]] std::vector<std::shared_ptr<dev::PhysicalDevice>> devices_of(
    const BackendSpec& spec, const BackendOptions& options);
/// The compiler that a row names, set up by the options. Throws invalid_argument for an unknown
/// one.
[[nodiscard]] std::shared_ptr<const jit::Compiler> make_compiler(const BackendSpec& spec,
                                                                 const BackendOptions& options);

}  // namespace heddle::rt
