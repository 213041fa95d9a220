// The table of backends: built-in and registered rows. Any thread.
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
/// Throws the Error of a device that cannot be opened.
[[nodiscard]] std::vector<std::shared_ptr<dev::PhysicalDevice>> devices_of(
    const BackendSpec& spec, const BackendOptions& options);
/// The compiler named by the row, with the options applied. Throws invalid_argument for an unknown
/// compiler.
[[nodiscard]] std::shared_ptr<const jit::Compiler> make_compiler(const BackendSpec& spec,
                                                                 const BackendOptions& options);

}  // namespace heddle::rt
